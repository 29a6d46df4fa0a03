package known

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// Named is a Machine that is not being deleted, and the server that its spec.providerID names.
type Named struct {
	Machine  types.UID
	ServerID string
	// Recorded returns where the Machine's server was last seen. It is called only for servers that the cloud has never shown.
	Recorded func() owner.Site
}

// Up to max(fewLosses, machines/lossShare) Machines may lose their servers at once without a second witness.
const fewLosses, lossShare = 3, 10

// Losses counts the Machines of a project whose servers are gone, or missing from the last complete list.
type Losses struct{ Lost, Machines int }

// TooMany reports whether so many servers are lost at once that the cloud's answers alone do not prove it.
func (l Losses) TooMany() bool { return l.Lost > max(fewLosses, l.Machines/lossShare) }

// String describes, for users, why a Machine whose server is lost is not replaced; empty unless too many servers are lost.
func (l Losses) String() string {
	if !l.TooMany() {
		return ""
	}
	return fmt.Sprintf("%d of the %d Machines of this project have lost their servers at once: a Machine whose Node is Ready is replaced only when its Node is not Ready any more, or when a person deletes the Machine",
		l.Lost, l.Machines)
}

// Losses counts the losses among the Machines of this project. A Machine that has another server has lost none.
func (p *Project) Losses(all iter.Seq[Named]) (l Losses) {
	for m := range all {
		k := p.Servers.ByID(m.ServerID)
		if k == nil && (p.fulls == 0 || m.Recorded() != p.site) {
			continue
		}
		l.Machines++
		if k != nil && (k.Present() || k.Machine() != m.Machine) {
			continue
		}
		if living, _ := p.Servers.OfMachine(m.Machine); len(living) == 0 || len(living) == 1 && living[0] == k {
			l.Lost++
		}
	}
	return l
}
