package health

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// mostPerPass is how many Machines a round deletes at most. The next round decides about the others.
const mostPerPass = 20

// errLater leaves work to the next round, for example because a live read differs from the caches.
var errLater = errors.New("the caches are behind")

// writeRecords writes the replacements and conditions of all groups into their status, and replaces the Machines that are due
// for replacement.
func (r *Reconciler) writeRecords(ctx context.Context, world *verdict.World, plan *verdict.Plan, objects map[*verdict.Group]client.Object, o *outcome) {
	plans := make(map[*verdict.Group]*verdict.GroupPlan, len(plan.Groups))
	for i := range plan.Groups {
		plans[plan.Groups[i].Group] = &plan.Groups[i]
	}
	due, order := byGroup(plan.Replace)
	deleted := 0
	for _, g := range order {
		if deleted >= mostPerPass {
			o.add(errLater)
			break
		}
		deleted += r.replaceIn(ctx, work{world, plans[g], objects[g]}, due[g], o)
	}
	exist := make(map[types.UID]bool, len(objects))
	for g, object := range objects {
		exist[g.UID] = true
		if due[g] == nil {
			o.add(r.writeRecord(ctx, plans[g], object))
		}
	}
	r.records.sweep(exist)
}

// byGroup returns the verdicts of each group. order lists the groups, with the group of the most urgent verdict first.
func byGroup(all []*verdict.Verdict) (due map[*verdict.Group][]*verdict.Verdict, order []*verdict.Group) {
	due = map[*verdict.Group][]*verdict.Verdict{}
	for _, v := range all {
		g := v.Machine.Group
		if due[g] == nil {
			order = append(order, g)
		}
		due[g] = append(due[g], v)
	}
	return due, order
}

// writeRecord writes the replacements and conditions of a group into its status, unless the status has them already.
func (r *Reconciler) writeRecord(ctx context.Context, p *verdict.GroupPlan, object client.Object) error {
	want := wanted(p, r.records.last(object), r.last)
	if equality.Semantic.DeepEqual(stored(object), want) {
		return nil
	}
	began := len(want.Conditions) > 0 && len(r.records.last(object).Conditions) == 0
	if err := r.records.write(ctx, object, want); err != nil {
		return err
	}
	if began {
		r.events.Eventf(object, nil, corev1.EventTypeWarning, string(p.Held), "Replace", "unhealthy Machines are not replaced: %s", p.Message)
		ctrl.LoggerFrom(ctx).Info("Unhealthy Machines are not replaced", "group", p.String(), "brake", p.Held, "why", p.Message)
	}
	return nil
}

// work is the input for replacing Machines of one group. object is the group's deployment or set from the cache.
type work struct {
	world  *verdict.World
	plan   *verdict.GroupPlan
	object client.Object
}

// replaceIn replaces Machines of one group and returns how many it deleted. It records the replacements before the first
// deletion, so that a new leader continues with the same Machines and starts no other replacement.
func (r *Reconciler) replaceIn(ctx context.Context, w work, due []*verdict.Verdict, o *outcome) (deleted int) {
	group, err := r.liveGroup(ctx, w.object)
	if err != nil {
		o.add(err)
		return 0
	}
	var confirmed []confirmation
	for _, v := range due {
		m, err := r.confirm(ctx, w.world, group, v)
		o.add(err)
		if err == nil {
			confirmed = append(confirmed, confirmation{v, m})
		}
	}
	w.plan.Replacements = slices.DeleteFunc(w.plan.Replacements, func(e v1alpha1.HealthReplacement) bool {
		return isNew(e, w.plan.Group) && !slices.ContainsFunc(confirmed, func(c confirmation) bool { return c.machine.UID == e.UID })
	})
	if err := r.writeRecord(ctx, w.plan, w.object); err != nil {
		o.add(err)
		return 0
	}
	for _, c := range confirmed {
		if !r.leading() {
			o.add(errLater)
			return deleted
		}
		err := r.remove(ctx, c, w.object)
		o.add(err)
		switch {
		case err == nil:
			deleted++
		case !errors.Is(err, errLater) && !apierrors.IsConflict(err):
			r.refused(c.machine.UID)
		}
	}
	return deleted
}

// isNew reports whether the replacement e was not in the group's status before.
func isNew(e v1alpha1.HealthReplacement, g *verdict.Group) bool {
	return !slices.ContainsFunc(g.Replacements, func(had v1alpha1.HealthReplacement) bool { return had.UID == e.UID })
}

// liveGroup reads the group from the API server. It returns errLater when the group is paused, is being deleted or is another
// object now, or when its status has a replacement that the caches did not show.
func (r *Reconciler) liveGroup(ctx context.Context, object client.Object) (*verdict.Group, error) {
	var live client.Object = &v1alpha1.MachineSet{}
	if _, ok := object.(*v1alpha1.MachineDeployment); ok {
		live = &v1alpha1.MachineDeployment{}
	}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return nil, fmt.Errorf("reading the group of a Machine to replace: %w", err)
	}
	if live.GetUID() != object.GetUID() || live.GetDeletionTimestamp() != nil || v1alpha1.Paused(live.GetAnnotations()) {
		return nil, errLater
	}
	known := r.records.last(object).HealthReplacements
	for _, e := range stored(live).HealthReplacements {
		if !slices.ContainsFunc(known, func(k v1alpha1.HealthReplacement) bool { return k.UID == e.UID }) {
			delete(r.records.known, object.GetUID())
			return nil, errLater
		}
	}
	return groupOf(live), nil
}

// confirmation is a Machine that must still be replaced, according to a live read.
type confirmation struct {
	verdict *verdict.Verdict
	machine *v1alpha1.Machine
}

// confirm reads the Machine and its Node from the API servers. It returns errLater if there is no reason any more to replace
// the Machine.
func (r *Reconciler) confirm(ctx context.Context, world *verdict.World, group *verdict.Group, v *verdict.Verdict) (*v1alpha1.Machine, error) {
	var m v1alpha1.Machine
	err := r.live.Get(ctx, client.ObjectKeyFromObject(v.Machine.Machine), &m)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errLater
	case err != nil:
		return nil, fmt.Errorf("reading Machine %s: %w", describe(v.Machine.Machine), err)
	}
	node, err := r.liveNode(ctx, &m)
	if err != nil {
		return nil, err
	}
	if !world.StillDue(v, &m, node, group) {
		ctrl.LoggerFrom(ctx).Info("Machine not replaced: a live read does not show the same problem", "machine", klog.KObj(&m), "reason", v.Reason)
		return nil, errLater
	}
	return &m, nil
}

// liveNode reads the Machine's Node from the API server; nil when the Node does not exist.
func (r *Reconciler) liveNode(ctx context.Context, m *v1alpha1.Machine) (*corev1.Node, error) {
	if m.Status.NodeRef == nil {
		return nil, nil
	}
	var node corev1.Node
	err := r.liveNodes.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Node %s: %w", m.Status.NodeRef.Name, err)
	}
	return &node, nil
}

// remove deletes the Machine if it has not changed since it was read, and reports the reason for the deletion.
func (r *Reconciler) remove(ctx context.Context, c confirmation, group client.Object) error {
	m, v := c.machine, c.verdict
	uid, version := m.UID, m.ResourceVersion
	err := r.control.Delete(ctx, m, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case apierrors.IsNotFound(err):
		return errLater
	case err != nil:
		return fmt.Errorf("deleting the unhealthy Machine %s: %w", describe(m), err)
	}
	why := v.Trouble
	if v.Asked {
		why = "an annotation requests its replacement"
	}
	r.metrics.replaced.WithLabelValues(v.Reason).Inc()
	for _, o := range []client.Object{m, group} {
		r.events.Eventf(o, m, corev1.EventTypeWarning, v.Reason, "Replace", "Machine %s is deleted, so that its set creates another: %s", m.Name, why)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted a Machine, so that its set creates another", "machine", klog.KObj(m), "reason", v.Reason, "cause", why, "since", v.Since)
	return nil
}
