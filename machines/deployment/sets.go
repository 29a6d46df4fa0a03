package deployment

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

const (
	// controllerIndex finds sets and Machines by the UID of their controller.
	controllerIndex = "machinedeployment.controller"
	// madeIndex finds sets by the first part of their names.
	madeIndex = "machinedeployment.made"
)

func baseOf(o client.Object) []string { return []string{v1alpha1.BaseOf(o.GetName())} }

// sets finds the sets of deployments, and their Machines, in the informer cache.
type sets struct {
	client client.Client
	refs   ownership.RefManager[*v1alpha1.MachineSet]
	// rolled remembers the removals that rollouts have written into spec.rolloutRemovals of the sets, to keep those that a client's write loses.
	rolled ownership.Removals
}

func newSets(w ownership.Writer, live client.Reader) *sets {
	s := &sets{client: w.Client}
	s.refs = ownership.RefManager[*v1alpha1.MachineSet]{
		Writer: w, Live: live, Owners: v1alpha1.MachineDeploymentKind, Objects: v1alpha1.MachineSetKind, List: s.controlledBy,
		MadeFor: v1alpha1.IsSetNameOf,
	}
	return s
}

// claim returns the sets that belong to the deployment, with their Machines, and the sets that were made for it and do not belong to it. It
// releases sets of the deployment whose labels no longer match, and adopts matching sets without a controller that were made for it
// (MC-30). The sets belong to the informer cache and must not be changed.
func (s *sets) claim(ctx context.Context, d *v1alpha1.MachineDeployment) (own []rollout.SetState, lost []rollout.LostSet, err error) {
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil || selector.Empty() {
		return nil, nil, nil // the planner reports the invalid selector
	}
	claimed, err := s.refs.Claim(ctx, d, selector)
	if err != nil {
		return nil, nil, err
	}
	if d.Status.ObservedGeneration == 0 {
		if err := s.complete(ctx, d, selector, claimed); err != nil {
			return nil, nil, err
		}
	}
	if own, err = s.withMachines(ctx, claimed); err != nil {
		return nil, nil, err
	}
	lost, err = s.lost(ctx, d, claimed)
	return own, lost, err
}

// complete returns [ownership.ErrCacheOld] when the API server has a set that the deployment controls or would adopt, and that is not among claimed. A
// deployment that is restored from a backup has no status yet, and the informer cache may show it before its sets. It would then make all its
// Machines a second time.
func (s *sets) complete(ctx context.Context, d *v1alpha1.MachineDeployment, selector labels.Selector, claimed []*v1alpha1.MachineSet) error {
	var live v1alpha1.MachineSetList
	if err := s.refs.Live.List(ctx, &live, client.InNamespace(d.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return fmt.Errorf("listing MachineSets: %w", err)
	}
	for i := range live.Items {
		set := &live.Items[i]
		ref := metav1.GetControllerOfNoCopy(set)
		ours := ref == nil && v1alpha1.IsSetNameOf(d.Name, set.Name) || ref != nil && ref.UID == d.UID
		if ours && set.DeletionTimestamp.IsZero() && !slices.ContainsFunc(claimed, func(c *v1alpha1.MachineSet) bool { return c.UID == set.UID }) {
			return ownership.ErrCacheOld
		}
	}
	return nil
}

// lost returns the sets that were made for the deployment and are not among own, the sets that belong to it. It leaves out sets that are
// being deleted.
func (s *sets) lost(ctx context.Context, d *v1alpha1.MachineDeployment, own []*v1alpha1.MachineSet) (lost []rollout.LostSet, err error) {
	var made v1alpha1.MachineSetList
	err = s.client.List(ctx, &made, client.InNamespace(d.Namespace), client.MatchingFields{madeIndex: v1alpha1.SetBase(d.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing MachineSets that were made for the deployment: %w", err)
	}
	for _, set := range ownership.Pointers(made.Items) {
		owned := slices.ContainsFunc(own, func(o *v1alpha1.MachineSet) bool { return o.UID == set.UID })
		if owned || !set.DeletionTimestamp.IsZero() || !v1alpha1.EndsWithHash(set.Name) {
			continue
		}
		machines, err := s.machinesOf(ctx, set)
		if err != nil {
			return nil, err
		}
		lost = append(lost, rollout.NewLostSet(set, machines))
	}
	return lost, nil
}

// owned returns the sets that the deployment controls, with their Machines. It writes nothing.
func (s *sets) owned(ctx context.Context, d *v1alpha1.MachineDeployment) ([]rollout.SetState, error) {
	found, err := s.controlledBy(ctx, d.Namespace, string(d.UID))
	if err != nil {
		return nil, err
	}
	return s.withMachines(ctx, found)
}

func (s *sets) withMachines(ctx context.Context, found []*v1alpha1.MachineSet) ([]rollout.SetState, error) {
	states := make([]rollout.SetState, len(found))
	for i, set := range found {
		machines, err := s.machinesOf(ctx, set)
		if err != nil {
			return nil, err
		}
		states[i] = rollout.SetState{Set: set, Machines: machines}
		named, _ := s.rolled.Of(set)
		states[i].Named = rollout.PresentRemovals(named, states[i].Machines)
		s.rolled.Keep(set, states[i].Named)
	}
	return states, nil
}

func (s *sets) machinesOf(ctx context.Context, set *v1alpha1.MachineSet) ([]*v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	err := s.client.List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingFields{controllerIndex: string(set.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	return ownership.Pointers(list.Items), nil
}

func (s *sets) controlledBy(ctx context.Context, namespace, controller string) ([]*v1alpha1.MachineSet, error) {
	var list v1alpha1.MachineSetList
	err := s.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{controllerIndex: controller}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	return ownership.Pointers(list.Items), nil
}
