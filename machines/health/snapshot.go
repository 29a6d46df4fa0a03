package health

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// set holds what is the same for all Machines of a MachineSet.
type set struct {
	group *verdict.Group
	// aside reports whether the set or its deployment is paused or being deleted. outdated reports whether a rollout replaces
	// the Machines of the set.
	aside, outdated bool
	// object is the set or its deployment, whichever stores the record of replacements in its status.
	object client.Object
}

// snapshot reads the caches. The objects belong to the caches and must not be changed.
func (r *Reconciler) snapshot(ctx context.Context) (*verdict.World, map[*verdict.Group]client.Object, error) {
	w := &verdict.World{Now: r.last, Began: r.began, Settings: r.options.Settings}
	if r.options.Provider != nil {
		w.Host = func(m *v1alpha1.Machine) string { return r.options.Provider.Remembered(m).HostID }
	}
	if r.options.Trust != nil {
		stale, since := r.options.Trust()
		w.Stale = stale
		if since.After(w.Began) {
			w.Began = since
		}
	}
	if w.Stale != "" {
		return w, nil, nil
	}
	listed := map[types.UID]bool{}
	sets, err := r.sets(ctx, listed)
	if err != nil {
		return nil, nil, err
	}
	objects := map[*verdict.Group]client.Object{}
	for _, s := range sets {
		if _, known := objects[s.group]; !known {
			objects[s.group] = s.object
			w.Groups = append(w.Groups, s.group)
		}
	}
	if w.Machines, err = r.machines(ctx, sets, listed); err != nil {
		return nil, nil, err
	}
	w.Missing = r.known.Missing(w.Now, w.Machines)
	return w, objects, nil
}

// sets returns all MachineSets by UID, each with its group. It adds the UIDs of the Machines that are in a list of removals
// to listed.
func (r *Reconciler) sets(ctx context.Context, listed map[types.UID]bool) (map[types.UID]*set, error) {
	deployments, err := r.deployments(ctx, listed)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.MachineSetList
	if err := r.control.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	sets := make(map[types.UID]*set, len(list.Items))
	for i := range list.Items {
		s := &list.Items[i]
		note(listed, s.Spec.Removals, s.Spec.RolloutRemovals)
		sets[s.UID] = r.setOf(s, deployments)
	}
	return sets, nil
}

// deployment is a MachineDeployment with its group.
type deployment struct {
	*v1alpha1.MachineDeployment
	group *verdict.Group
}

func (r *Reconciler) deployments(ctx context.Context, listed map[types.UID]bool) (map[types.UID]*deployment, error) {
	var list v1alpha1.MachineDeploymentList
	if err := r.control.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	deployments := make(map[types.UID]*deployment, len(list.Items))
	for i := range list.Items {
		d := &list.Items[i]
		note(listed, d.Spec.Removals)
		g := groupOf(d)
		g.Replacements = r.records.replacementsOf(d.UID, d.Status.HealthReplacements)
		deployments[d.UID] = &deployment{d, g}
	}
	return deployments, nil
}

func note(listed map[types.UID]bool, lists ...[]v1alpha1.Removal) {
	for _, list := range lists {
		for i := range list {
			listed[list[i].UID] = true
		}
	}
}

// setOf returns a set with its group, which is the deployment that controls the set, or else the set itself. The Machines of
// a set whose deployment does not exist are ignored, because no successor may be created for them.
func (r *Reconciler) setOf(s *v1alpha1.MachineSet, deployments map[types.UID]*deployment) *set {
	aside := s.DeletionTimestamp != nil || v1alpha1.Paused(s.Annotations)
	owner := metav1.GetControllerOfNoCopy(s)
	if owner == nil {
		g := groupOf(s)
		g.Replacements = r.records.replacementsOf(s.UID, s.Status.HealthReplacements)
		return &set{group: g, object: s, aside: aside}
	}
	d, ok := deployments[owner.UID]
	if !ok {
		return &set{group: groupOf(s), object: s, aside: true}
	}
	aside = aside || d.DeletionTimestamp != nil || v1alpha1.Paused(d.Annotations)
	return &set{group: d.group, object: d.MachineDeployment, aside: aside, outdated: outdated(d.MachineDeployment, s)}
}

// groupOf returns the group of a MachineDeployment, or of a MachineSet without a deployment.
func groupOf(o client.Object) *verdict.Group {
	g := &verdict.Group{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Annotations: o.GetAnnotations()}
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		g.Kind, g.Size = v1alpha1.MachineDeploymentKind.Kind, sizeOf(o.Spec.Replicas, o.Status.LastReplicas)
		g.Replacements = o.Status.HealthReplacements
	case *v1alpha1.MachineSet:
		g.Kind, g.Size = v1alpha1.MachineSetKind.Kind, sizeOf(o.Spec.Replicas, &o.Status.Replicas)
		g.Replacements = o.Status.HealthReplacements
	}
	return g
}

// sizeOf returns the first of the sizes that is not nil.
func sizeOf(sizes ...*int32) int {
	for _, n := range sizes {
		if n != nil {
			return int(*n)
		}
	}
	return 0
}

// outdated reports whether a rollout is replacing the set's Machines. A rollout replaces no Machine while it is paused, after
// its deadline has stopped it, or while it waits until Machines are deleted by hand (OnDelete).
func outdated(d *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) bool {
	revision := d.Annotations[v1alpha1.AnnotationRevision]
	if revision == "" || s.Annotations[v1alpha1.AnnotationRevision] == revision || d.Spec.Paused {
		return false
	}
	if d.Spec.Strategy != nil && d.Spec.Strategy.Type == v1alpha1.OnDelete {
		return false
	}
	progress := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionProgressing)
	return progress == nil || progress.Status != metav1.ConditionFalse
}

// machines returns the Machines that drover manages.
func (r *Reconciler) machines(ctx context.Context, sets map[types.UID]*set, listed map[types.UID]bool) ([]verdict.Machine, error) {
	nodes, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.MachineList
	if err := r.control.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	machines, starting := make([]verdict.Machine, 0, len(list.Items)), map[types.UID]time.Time{}
	for i := range list.Items {
		m := &list.Items[i]
		if m.Labels[v1alpha1.LabelController] != r.options.Controller {
			continue
		}
		n := r.noticed[m.UID]
		seen := verdict.Machine{Machine: m, Aside: listed[m.UID], Noticed: n.first, Held: n.held, Refused: n.again}
		if verdict.IsStarting(m) {
			if seen.Starting = r.starting[m.UID]; seen.Starting.IsZero() {
				seen.Starting = r.last
			}
			starting[m.UID] = seen.Starting
		}
		if m.Status.NodeRef != nil {
			seen.Node = nodes[m.Status.NodeRef.Name]
		}
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
			if s, ok := sets[owner.UID]; ok {
				seen.Group, seen.Outdated = s.group, s.outdated
				seen.Aside = seen.Aside || s.aside
			}
		}
		machines = append(machines, seen)
	}
	r.starting = starting
	return machines, nil
}

// nodes returns all Nodes by name.
func (r *Reconciler) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	var list corev1.NodeList
	if err := r.options.Target.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	nodes := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes, nil
}
