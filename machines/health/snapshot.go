package health

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// objects are the objects in the caches. They belong to the caches and must not be changed.
type objects struct {
	deployments v1alpha1.MachineDeploymentList
	sets        v1alpha1.MachineSetList
	machines    v1alpha1.MachineList
	nodes       corev1.NodeList
	// listed holds the Machines that are in a list of removals.
	listed map[types.UID]bool
}

func (o *objects) list(lists ...[]v1alpha1.Removal) {
	for _, list := range lists {
		for i := range list {
			o.listed[list[i].UID] = true
		}
	}
}

// read reads the caches.
func (r *Reconciler) read(ctx context.Context, w *verdict.World) error {
	all := objects{listed: map[types.UID]bool{}}
	for _, list := range []client.ObjectList{&all.deployments, &all.sets, &all.machines, &all.nodes} {
		from := r.writer.Client
		if list == client.ObjectList(&all.nodes) {
			from = r.options.Target.GetClient()
		}
		if err := from.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	r.addMachines(w, &all, addGroups(w, &all))
	return nil
}

// owner holds what is the same for all Machines of a MachineSet. Group, Aside and Outdated have the meaning that they have for a
// Machine.
type owner = verdict.Machine

// addGroups adds the groups to the snapshot, and returns the owners of Machines by UID. The group of a set is the deployment that
// controls the set, or else the set itself. The Machines of a set whose deployment does not exist are ignored, because no successor may
// be created for them.
func addGroups(w *verdict.World, all *objects) map[types.UID]owner {
	deployments := make(map[types.UID]*verdict.Group, len(all.deployments.Items))
	for i := range all.deployments.Items {
		d := &all.deployments.Items[i]
		all.list(d.Spec.Removals)
		deployments[d.UID] = groupOf(d, v1alpha1.MachineDeploymentKind.Kind, ptr.Deref(d.Spec.Replicas, ptr.Deref(d.Status.LastReplicas, 0)), d.Status.HealthReplacements, d.Status.Conditions)
		w.Groups = append(w.Groups, deployments[d.UID])
	}
	owners := make(map[types.UID]owner, len(all.sets.Items))
	for i := range all.sets.Items {
		s := &all.sets.Items[i]
		all.list(s.Spec.Removals, s.Spec.RolloutRemovals)
		o := owner{Aside: aside(s)}
		if by := metav1.GetControllerOfNoCopy(s); by == nil {
			o.Group = groupOf(s, v1alpha1.MachineSetKind.Kind, ptr.Deref(s.Spec.Replicas, s.Status.Replicas), s.Status.HealthReplacements, s.Status.Conditions)
			w.Groups = append(w.Groups, o.Group)
		} else if o.Group = deployments[by.UID]; o.Group != nil {
			o.Outdated, o.Aside = outdated(o.Group.Object.(*v1alpha1.MachineDeployment), s), o.Aside || aside(o.Group)
			if !o.Outdated {
				o.Group.Wanted += int(ptr.Deref(s.Spec.Replicas, s.Status.Replicas))
			}
		} else {
			o.Aside = true
		}
		owners[s.UID] = o
	}
	return owners
}

func aside(o metav1.Object) bool {
	return o.GetDeletionTimestamp() != nil || v1alpha1.Paused(o.GetAnnotations())
}

// groupOf returns the group of a MachineDeployment, or of a MachineSet without a deployment.
func groupOf(o client.Object, kind string, size int32, replacements []v1alpha1.HealthReplacement, conditions []metav1.Condition) *verdict.Group {
	return &verdict.Group{Object: o, Kind: kind, Size: int(size), Replacements: replacements, Held: meta.FindStatusCondition(conditions, v1alpha1.ConditionRepairHeld)}
}

// outdated reports whether a rollout is replacing the set's Machines. A rollout replaces no Machine while it is paused, after
// its deadline has stopped it, or while it waits until Machines are deleted by hand (OnDelete).
func outdated(d *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) bool {
	revision := d.Annotations[v1alpha1.AnnotationRevision]
	stands := d.Spec.Paused || d.Spec.Strategy != nil && d.Spec.Strategy.Type == v1alpha1.OnDelete || meta.IsStatusConditionFalse(d.Status.Conditions, v1alpha1.ConditionProgressing)
	return revision != "" && s.Annotations[v1alpha1.AnnotationRevision] != revision && !stands
}

// addMachines adds the Machines that drover manages to the snapshot.
func (r *Reconciler) addMachines(w *verdict.World, all *objects, owners map[types.UID]owner) {
	nodes := make(map[string]*corev1.Node, len(all.nodes.Items))
	for i := range all.nodes.Items {
		nodes[all.nodes.Items[i].Name] = &all.nodes.Items[i]
	}
	for i := range all.machines.Items {
		m := &all.machines.Items[i]
		if m.Labels[v1alpha1.LabelController] != r.options.Controller {
			continue
		}
		var seen verdict.Machine
		if by := metav1.GetControllerOfNoCopy(m); by != nil {
			seen = owners[by.UID]
		}
		seen.Machine, seen.Aside = m, seen.Aside || all.listed[m.UID]
		if m.Status.NodeRef != nil {
			seen.Node = nodes[m.Status.NodeRef.Name]
		}
		w.Machines = append(w.Machines, seen)
	}
}
