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
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// errLater leaves work to the next round, for example because a live read differs from the caches.
var errLater = errors.New("the caches are behind")

// replaceIn replaces Machines of one group, and writes its status. It records the replacements before the first deletion, so that a new
// leader continues with the same Machines and starts no other replacement.
func (r *Reconciler) replaceIn(ctx context.Context, w *verdict.World, p *verdict.GroupPlan) (failed []error) {
	live := map[*verdict.Verdict]*v1alpha1.Machine{}
	for _, v := range p.Replace {
		m, err := r.confirm(ctx, w, v)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		live[v] = m
		p.Record(v, w.Now)
	}
	p.Replace = slices.DeleteFunc(p.Replace, func(v *verdict.Verdict) bool { return live[v] == nil })
	if err := r.writeRecord(ctx, p); err != nil {
		return append(failed, err)
	}
	for _, v := range p.Replace {
		if !r.leading() {
			return append(failed, errLater)
		}
		r.remove(ctx, v, live[v])
	}
	return failed
}

// confirm reads the Machine and its Node from the API servers. It returns errLater if there is no reason any more to replace
// the Machine.
func (r *Reconciler) confirm(ctx context.Context, w *verdict.World, v *verdict.Verdict) (*v1alpha1.Machine, error) {
	m := &v1alpha1.Machine{}
	if err := r.options.Control.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(v.Machine.Machine), m); err != nil {
		return nil, fmt.Errorf("reading a Machine to replace: %w", err)
	}
	var node *corev1.Node
	if m.Status.NodeRef != nil {
		node = &corev1.Node{}
		err := r.options.Target.GetAPIReader().Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node)
		switch {
		case apierrors.IsNotFound(err):
			node = nil
		case err != nil:
			return nil, fmt.Errorf("reading the Node of a Machine to replace: %w", err)
		}
	}
	if !w.StillDue(v, m, node) {
		ctrl.LoggerFrom(ctx).Info("Machine not replaced: a live read does not show the same problem", "machine", klog.KObj(m), "reason", v.Reason)
		return nil, errLater
	}
	return m, nil
}

// remove deletes the Machine if it has not changed since it was read, and reports the reason for the deletion. The verdict plans when
// a deletion that fails is repeated.
func (r *Reconciler) remove(ctx context.Context, v *verdict.Verdict, m *v1alpha1.Machine) {
	log := ctrl.LoggerFrom(ctx).WithValues("machine", klog.KObj(m), "reason", v.Reason)
	uid, version := m.UID, m.ResourceVersion
	err := r.writer.Client.Delete(ctx, m, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return
	case err != nil:
		log.Error(err, "Deleting an unhealthy Machine failed and is repeated")
		return
	}
	why := v.Trouble
	if v.Asked {
		why = "an annotation requests its replacement"
	}
	r.metrics.replaced.WithLabelValues(v.Reason).Inc()
	for _, o := range []client.Object{m, v.Machine.Group.Object.(client.Object)} {
		r.events.Eventf(o, m, corev1.EventTypeWarning, v.Reason, "Replace", "Machine %s is deleted, so that its set creates another: %s", m.Name, why)
	}
	log.Info("Deleted a Machine, so that its set creates another", "cause", why, "since", v.Since)
}

// record is the part of a group's status that this controller writes: the replacements, and condition RepairHeld.
type record struct {
	HealthReplacements []v1alpha1.HealthReplacement `json:"healthReplacements,omitempty"`
	Conditions         []metav1.Condition           `json:"conditions,omitempty"`
}

// writeRecord writes the replacements and the brake of a group into its status, unless the status has them already and no Machine is
// replaced. The API server refuses the write with a Conflict when the group has changed since the cache has read it. So a write shows that
// the group exists, is not paused, and has recorded no replacement that the plan does not know.
func (r *Reconciler) writeRecord(ctx context.Context, p *verdict.GroupPlan) error {
	same := equality.Semantic.DeepEqual(p.Replacements, p.Group.Replacements) && equality.Semantic.DeepEqual(p.Held, p.Group.Held)
	if same && len(p.Replace) == 0 {
		return nil
	}
	object, want := p.Object.(client.Object), record{HealthReplacements: p.Replacements}
	if p.Held != nil {
		want.Conditions = []metav1.Condition{*p.Held}
	}
	if err := r.writer.ApplyStatusOf(ctx, object, &want); err != nil {
		return fmt.Errorf("writing the status of %s, which records the Machines being replaced (if the status lacks this field, apply the CRDs of this version): %w", p, err)
	}
	if p.Held != nil && p.Group.Held == nil {
		r.events.Eventf(object, nil, corev1.EventTypeWarning, p.Held.Reason, "Replace", "unhealthy Machines are not replaced: %s", p.Held.Message)
		ctrl.LoggerFrom(ctx).Info("Unhealthy Machines are not replaced", "group", p.String(), "brake", p.Held.Reason, "why", p.Held.Message)
	}
	return nil
}

// mostShown is the maximum number of Machines whose condition Healthy one round of the health controller writes. The next
// round writes the others.
const mostShown = 100

// showConditions writes condition Healthy of the Machines whose condition must change. Each patch has the version of the Machine as its
// condition, because it replaces the whole list of conditions: if another client writes the Machine at the same time, the next round
// writes it.
func (r *Reconciler) showConditions(ctx context.Context, plan *verdict.Plan, now metav1.Time) (failed []error) {
	written := 0
	for _, v := range plan.Verdicts {
		if v.Condition == nil {
			continue
		}
		if written++; written > mostShown {
			return append(failed, errLater)
		}
		m := v.Machine.DeepCopy()
		m.SetCondition(*v.Condition, now)
		if err := r.writer.Client.Patch(ctx, m, client.MergeFromWithOptions(v.Machine.Machine, client.MergeFromWithOptimisticLock{}), client.FieldOwner(name)); err != nil {
			failed = append(failed, fmt.Errorf("writing condition Healthy of Machine %s/%s: %w", m.Namespace, m.Name, err))
		}
	}
	return failed
}
