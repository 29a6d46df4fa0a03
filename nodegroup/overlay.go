package nodegroup

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// layOver replaces the cached deployments by our own, newer versions of them, so that a write shows at once and not
// when its event arrives (CA-C36), and forgets those that the cache has caught up with. The caller holds mu.
func (g *Groups) layOver(cached []*v1alpha1.MachineDeployment) []*v1alpha1.MachineDeployment {
	out := slices.Clone(cached)
	kept := make(map[types.NamespacedName]*v1alpha1.MachineDeployment, len(g.own))
	for i, d := range out {
		key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
		if own := g.own[key]; own != nil && newer(own, d) {
			kept[key], out[i] = own, own
		}
	}
	g.own = kept
	return out
}

// newer tells whether a is a later version than b of the same object.
func newer(a, b *v1alpha1.MachineDeployment) bool {
	if a.UID != b.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// adopt takes a version of a deployment that came from the API server itself, and publishes what follows from it.
func (g *Groups) adopt(d *v1alpha1.MachineDeployment, kept ...*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	current := g.view.Load()
	known := current.snapshot.groups[ID(d.Namespace, d.Name)]
	if known != nil && known.deployment.UID == d.UID && newer(known.deployment, d) {
		return
	}
	g.own[key] = d
	if len(kept) > 0 {
		g.seen = maps.Clone(g.seen)
		for _, m := range kept {
			g.seen[m.machine.UID] = attempt(m.machine)
		}
	}
	base := *current.snapshot
	base.seen, base.now = g.seen, g.clock.Now()
	next := base.with(d)
	if next.groups[ID(d.Namespace, d.Name)].check() != nil {
		return
	}
	g.publish(current, next, false)
}

// forget drops what is remembered of Machines that are gone. The caller holds mu.
func (g *Groups) forget(machines []*v1alpha1.Machine) {
	if len(g.seen) == 0 {
		return
	}
	kept := map[types.UID]time.Time{}
	for _, m := range machines {
		if at, ok := g.seen[m.UID]; ok {
			kept[m.UID] = at
		}
	}
	g.seen = kept
}
