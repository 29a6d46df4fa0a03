package set

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// pageSize is the number of Machines in one page of a list of their metadata.
const pageSize = 500

// freeze lowers the number of Machines that a decision creates, as far as the set is frozen. An annotation of the set lifts the freeze once. For
// a set that is not shown as frozen yet, the Machines are counted in the API server first: freeze returns [ownership.ErrCacheOld] when there are fewer than
// the cache shows. A set that is shown as frozen is set free by SafetyDown Machines fewer than those that freeze it.
func (r *Reconciler) freeze(ctx context.Context, seen observed, d *decision) error {
	if d.create == 0 || r.options.SafetyUp < 0 {
		return nil
	}
	set := seen.set
	group, err := r.group(ctx, set)
	if err != nil {
		return err
	}
	c, err := r.crowd(ctx, seen, group)
	if err != nil {
		return err
	}
	shown, up := rollout.WhyFrozen(set.Status.Conditions) != "", r.options.SafetyUp
	if shown {
		up -= r.options.SafetyDown - 1
	}
	limited := *d
	if limited.freeze(c, up); limited.frozen == "" {
		return nil
	}
	if len(ownership.Unfreezes(set)) > 0 {
		d.lifted = limited.frozen
		return nil
	}
	if !shown {
		if late, err := r.expected.hasMore(ctx, set.Namespace, group); err != nil {
			return err
		} else if late {
			return ownership.ErrCacheOld
		}
	}
	*d = limited
	return nil
}

// showFreeze shows whether the set is frozen. An annotation that lifts the freeze stays until the set has created Machines.
func (r *Reconciler) showFreeze(ctx context.Context, set *v1alpha1.MachineSet, d *decision, acted error) error {
	if d.lifted != "" && (acted != nil || d.create == 0) {
		d.frozen = d.lifted
		return nil
	}
	return r.freezes.Show(ctx, set, d.frozen)
}

// member is a set of a deployment with its Machines.
type member struct {
	set      *v1alpha1.MachineSet
	machines []*v1alpha1.Machine
}

// group returns all sets of the deployment of a set; the set alone when it has none. The objects belong to the informer cache and must not be
// changed.
func (r *Reconciler) group(ctx context.Context, set *v1alpha1.MachineSet) (group []member, err error) {
	sets := []*v1alpha1.MachineSet{set}
	if ref := metav1.GetControllerOfNoCopy(set); ref != nil {
		var list v1alpha1.MachineSetList
		of := client.MatchingFields{controllerIndex: string(ref.UID)}
		if err := r.client.List(ctx, &list, client.InNamespace(set.Namespace), of, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing MachineSets: %w", err)
		}
		sets = ownership.Pointers(list.Items)
	}
	for _, s := range sets {
		owned, err := r.owned(ctx, s)
		if err != nil {
			return nil, err
		}
		group = append(group, member{s, owned})
	}
	return group, nil
}

// crowd counts the Machines of a group and of one of its sets.
func (r *Reconciler) crowd(ctx context.Context, seen observed, group []member) (c crowd, err error) {
	lost, err := r.lost(ctx, seen.set, seen.machines)
	if err != nil {
		return crowd{}, err
	}
	c.own = seen.living() + lost
	if metav1.GetControllerOfNoCopy(seen.set) == nil {
		return c, nil
	}
	c.most, _ = strconv.Atoi(seen.set.Annotations[v1alpha1.AnnotationMaxReplicas])
	for _, m := range group {
		if m.set.UID == seen.set.UID {
			c.living += seen.living()
			continue
		}
		// Creations that the cache does not show yet are known to the reconciles of that set alone.
		c.living += observe(m.set, m.machines, m.set.Spec.Removals, unconfirmed{}, r.clock.Now()).living()
	}
	return c, nil
}

// living counts the living Machines of a set, with those that the cache does not show yet.
func (s observed) living() int {
	n := s.unseen
	for _, f := range s.machines {
		if f.Living() {
			n++
		}
	}
	return n
}

// hasMore reports whether the cache has more Machines of the sets than the API server. Machines that are being deleted do not count.
func (x *expectations) hasMore(ctx context.Context, namespace string, group []member) (bool, error) {
	cached, sets := 0, map[types.UID]bool{}
	for _, m := range group {
		sets[m.set.UID] = true
		for _, machine := range m.machines {
			if machine.DeletionTimestamp.IsZero() {
				cached++
			}
		}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MachineList"))
	for live := 0; ; {
		if err := x.live.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(list.Continue)); err != nil {
			return false, fmt.Errorf("counting Machines: %w", err)
		}
		for i := range list.Items {
			owner := metav1.GetControllerOfNoCopy(&list.Items[i])
			if owner != nil && sets[owner.UID] && list.Items[i].DeletionTimestamp.IsZero() {
				live++
			}
		}
		if list.Continue == "" {
			return cached > live, nil
		}
	}
}
