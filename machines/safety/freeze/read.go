package freeze

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// controllerIndex is the index of sets and Machines by the UID of their controller.
const controllerIndex = "freeze.controller"

// reading reads groups from the caches or from the API server.
type reading struct {
	cache, live client.Reader
}

// cached returns a group as the caches show it; nil when the group does not exist. The objects belong to the caches and must not
// be changed.
func (r reading) cached(ctx context.Context, k key) (*Group, error) {
	g, err := r.owner(ctx, r.cache, k)
	if g == nil || err != nil {
		return nil, err
	}
	if g.Deployment != nil {
		var sets v1alpha1.MachineSetList
		if err := r.cache.List(ctx, &sets, client.InNamespace(k.Namespace), controlledBy(g.Deployment.UID), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing MachineSets: %w", err)
		}
		g.Sets = ownership.Pointers(sets.Items)
	}
	var machines []metav1.Object
	for _, set := range g.Sets {
		var list v1alpha1.MachineList
		if err := r.cache.List(ctx, &list, client.InNamespace(k.Namespace), controlledBy(set.UID), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Machines: %w", err)
		}
		for i := range list.Items {
			machines = append(machines, &list.Items[i])
		}
	}
	g.Living = living(g.Deployment, g.Sets, machines)
	return g, nil
}

func controlledBy(uid types.UID) client.MatchingFields {
	return client.MatchingFields{controllerIndex: string(uid)}
}

// current returns a group as the API server has it; nil when the group does not exist. It reads the Machines first and the owner
// last. If the size is raised in between, the result has the new size with the earlier Machines, so a group that only grows is
// not taken for a group with too many Machines.
func (r reading) current(ctx context.Context, k key) (*Group, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.MachineKind)
	if err := r.live.List(ctx, list, client.InNamespace(k.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Machines on the API server: %w", err)
	}
	var sets v1alpha1.MachineSetList
	if k.deployment {
		if err := r.live.List(ctx, &sets, client.InNamespace(k.Namespace)); err != nil {
			return nil, fmt.Errorf("listing MachineSets on the API server: %w", err)
		}
	}
	g, err := r.owner(ctx, r.live, k)
	if g == nil || err != nil {
		return nil, err
	}
	if g.Deployment != nil {
		g.Sets = slices.DeleteFunc(ownership.Pointers(sets.Items), func(s *v1alpha1.MachineSet) bool {
			return !metav1.IsControlledBy(s, g.Deployment)
		})
	}
	g.Living = living(g.Deployment, g.Sets, ofSets(list.Items, g.Sets))
	return g, nil
}

// owner reads the owner of a group.
func (r reading) owner(ctx context.Context, reader client.Reader, k key) (*Group, error) {
	var g Group
	var into client.Object
	if k.deployment {
		g.Deployment = &v1alpha1.MachineDeployment{}
		into = g.Deployment
	} else {
		g.Sets = []*v1alpha1.MachineSet{{}}
		into = g.Sets[0]
	}
	if err := reader.Get(ctx, k.NamespacedName, into); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s %s: %w", k.kind(), k, err)
	}
	if set, bare := into.(*v1alpha1.MachineSet); bare && keyOfSet(set) != k {
		return nil, nil
	}
	return &g, nil
}

// ofSets returns the Machines that one of the given sets controls.
func ofSets(all []metav1.PartialObjectMetadata, sets []*v1alpha1.MachineSet) (machines []metav1.Object) {
	uids := map[types.UID]bool{}
	for _, set := range sets {
		uids[set.UID] = true
	}
	for i := range all {
		if ref := metav1.GetControllerOfNoCopy(&all[i]); ref != nil && uids[ref.UID] {
			machines = append(machines, &all[i])
		}
	}
	return machines
}
