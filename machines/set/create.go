package set

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// maxParallel bounds the calls that run at once.
	maxParallel = 64
	// maxNameBase leaves room for a dash and five letters in the 63 that a host name may have.
	maxNameBase = 57
)

// create makes count Machines in batches of 1, 2, 4, … calls at once, and the rest as one stream of maxParallel
// calls. It stops behind the first batch that has an error, and in the stream behind the first error: what fails for one
// usually fails for all (MCM-24).
func (ms *machines) create(ctx context.Context, set *v1alpha1.MachineSet, count int) error {
	var place *runtime.RawExtension
	if ms.placeRecord != nil {
		place = ms.placeRecord(ctx, set.Namespace, &set.Spec.Template)
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
			err := ms.createOne(ctx, set, place)
			failed.CompareAndSwap(false, err != nil)
			return err
		})
		if err != nil {
			return fmt.Errorf("creating Machines (%d of %d made): %w", made, count, err)
		}
		made += n
	}
	if made > 0 {
		ctrl.LoggerFrom(ctx).Info("made Machines", "count", made)
	}
	return nil
}

// createOne makes one Machine. Its name is remembered before the call: when the outcome is unknown, the Machine
// counts until a look shows that it does not exist. place is the Machine's first status.providerStatus; it may be nil.
func (ms *machines) createOne(ctx context.Context, set *v1alpha1.MachineSet, place *runtime.RawExtension) error {
	if ms.lease.old() {
		return errLeaseOld
	}
	m := newMachine(set, ms.suffix())
	m.Status.ProviderStatus = place
	ms.expected.create(set, m.Name, ms.clock.Now())
	err := ms.client.Create(ctx, m, client.FieldOwner(FieldManager))
	if err != nil && refused(err) {
		ms.expected.notCreated(set, m.Name)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// refused reports whether the API server answered and nothing was made.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err)
}

// newMachine returns the Machine that a set's template describes. The finalizers stand on it before any server can exist.
func newMachine(set *v1alpha1.MachineSet, suffix string) *v1alpha1.Machine {
	t := set.Spec.Template.DeepCopy()
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:            strings.TrimRight(set.Name[:min(len(set.Name), maxNameBase)], "-.") + "-" + suffix,
			Namespace:       set.Namespace,
			Labels:          maps.Clone(t.Metadata.Labels),
			Annotations:     maps.Clone(t.Metadata.Annotations),
			Finalizers:      finalizers(t),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)},
		},
		Spec: t.Spec,
	}
	if m.Spec.Metadata.Name == "" {
		m.Spec.Metadata.Name = m.Name
	}
	withoutGuarded(m)
	return m
}

// withoutGuarded drops from a new Machine what the author of a template may not give it: drover may set it on a Machine, so
// admission does not refuse it here. A template that asks for the replacement of its Machines would do so without end.
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

// delete deletes each Machine, by UID, and tries all of them even when one fails.
func (ms *machines) delete(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) error {
	if len(machines) == 0 {
		return nil
	}
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = m.Name
	}
	ctrl.LoggerFrom(ctx).Info("deleting Machines", "machines", names)
	return inParallel(len(machines), func(i int) error {
		m := machines[i]
		ms.expected.delete(set, m, ms.clock.Now())
		err := ms.client.Delete(ctx, m, client.Preconditions{UID: &m.UID})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		ms.expected.notDeleted(set, m.UID)
		return fmt.Errorf("deleting Machine %s: %w", m.Name, err)
	})
}

// inParallel calls do for 0 … n-1, at most maxParallel at once, and waits for all.
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
