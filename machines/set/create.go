package set

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// maxParallel limits the calls that are under way at the same time.
const maxParallel = 64

// create creates the given number of Machines: first in batches of 1, 2, 4, … parallel calls, then the rest as one stream of
// maxParallel parallel calls. It stops after the first batch with an error, or in the stream after the first error, because the
// cause of one failure usually affects all calls (MCM-24).
func (r *Reconciler) create(ctx context.Context, set *v1alpha1.MachineSet, count int) error {
	var place *runtime.RawExtension
	if r.options.PlaceRecord != nil {
		place = r.options.PlaceRecord(ctx, set.Namespace, &set.Spec.Template)
	}
	var made int
	for batch := 1; made < count; batch *= 2 {
		n := min(batch, count-made)
		if batch >= maxParallel {
			n = count - made
		}
		var failed atomic.Bool
		err := inParallel(n, func(int) error {
			if failed.Load() && n > maxParallel {
				return nil
			}
			err := r.createOne(ctx, set, place)
			failed.CompareAndSwap(false, err != nil)
			return err
		})
		if err != nil {
			return fmt.Errorf("creating Machines (%d of %d created): %w", made, count, err)
		}
		made += n
	}
	if made > 0 {
		ctrl.LoggerFrom(ctx).Info("Created Machines", "count", made)
	}
	return nil
}

// createOne creates one Machine. It records the Machine's name before the call. When the outcome of the call is unknown, the Machine counts
// as existing until a live read shows that it does not. place is the first status.providerStatus of the Machine; it may be nil.
func (r *Reconciler) createOne(ctx context.Context, set *v1alpha1.MachineSet, place *runtime.RawExtension) error {
	if r.leaseOld() {
		return errLeaseOld
	}
	m := newMachine(set, r.options.Suffix())
	m.Status.ProviderStatus = place
	r.expected.expect(set, m.Name, "")
	written := m.DeepCopy()
	err := r.client.Create(ctx, m, client.FieldOwner(FieldManager))
	if err == nil {
		return r.compare(set, written, m)
	}
	if refused(err) {
		r.expected.settled(set, m.Name)
	}
	return err
}

// compare reports by an Event what differs between a Machine that was written and what the API server has stored. It returns an error
// when the stored Machine does not belong to the set.
func (r *Reconciler) compare(set *v1alpha1.MachineSet, written, stored *v1alpha1.Machine) error {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return err
	}
	notOwned := ownership.WhyNotOwned(set, stored, selector)
	differences := slices.Concat(notOwned, rollout.TemplateDifferences(asTemplate(written), asTemplate(stored)))
	if len(differences) == 0 {
		return nil
	}
	err = ownership.StoredDifferently(v1alpha1.MachineKind.Kind, differences)
	r.events.Eventf(set, nil, "Warning", ownership.ReasonStoredDifferently, "Create", "%s", err)
	if len(notOwned) == 0 {
		return nil
	}
	return err
}

// asTemplate returns the parts of a Machine that come from its set's template.
func asTemplate(m *v1alpha1.Machine) *v1alpha1.MachineTemplateSpec {
	return &v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: m.Labels, Annotations: m.Annotations}, Spec: m.Spec}
}

// refused reports whether the API server answered and created nothing.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err)
}

// newMachine returns the Machine that a set's template describes. It has its finalizers from the start, before any server can exist.
func newMachine(set *v1alpha1.MachineSet, suffix string) *v1alpha1.Machine {
	t := set.Spec.Template.DeepCopy()
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:            v1alpha1.MachineBase(set.Name) + "-" + suffix,
			Namespace:       set.Namespace,
			Labels:          maps.Clone(t.Metadata.Labels),
			Annotations:     maps.Clone(t.Metadata.Annotations),
			Finalizers:      finalizers(t),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)},
		},
		Spec: t.Spec,
	}
	// A name in the template would give all Machines of the set one server and one Node (F-117).
	m.Spec.Metadata.Name = m.Name
	withoutGuarded(m)
	return m
}

// withoutGuarded removes from a new Machine the fields that the author of a template may not set. The admission policies do not refuse them
// here, because drover itself may set them. It also removes the annotation that requests a replacement, because the replacement would have
// it too, and would itself be replaced, without end.
func withoutGuarded(m *v1alpha1.Machine) {
	for _, key := range v1alpha1.GuardedAnnotations {
		delete(m.Annotations, key)
	}
	delete(m.Annotations, v1alpha1.AnnotationReplace)
	delete(m.Annotations, v1alpha1.AnnotationReplaceCAPI)
	m.Spec.ProviderID = nil
}

func finalizers(t *v1alpha1.MachineTemplateSpec) []string {
	all := []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
	for _, f := range t.Metadata.Finalizers {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// delete deletes each Machine, with its UID as a precondition. It tries all of them even when one fails.
func (r *Reconciler) delete(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) error {
	if len(machines) == 0 {
		return nil
	}
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = m.Name
	}
	ctrl.LoggerFrom(ctx).Info("Deleting Machines", "machines", names)
	return inParallel(len(machines), func(i int) error {
		m := machines[i]
		r.expected.expect(set, m.Name, m.UID)
		err := r.client.Delete(ctx, m, client.Preconditions{UID: &m.UID})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		r.expected.settled(set, m.Name)
		return fmt.Errorf("deleting Machine %s: %w", m.Name, err)
	})
}

// inParallel calls do for 0 … n-1, at most maxParallel at the same time, and waits for all calls.
func inParallel(n int, do func(i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, maxParallel)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
