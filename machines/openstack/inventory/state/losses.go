package state

import "fmt"

// fewLosses is how many Machines may be replaced because their servers are missing while their Nodes are Ready.
const fewLosses = 3

// losses is how many Machines of a project have lost their servers: these are gone, or missing from the last complete list.
type losses int

// areTooMany reports whether so many servers are lost at once that the cloud's answers alone do not prove it.
func (l losses) areTooMany() bool { return l > fewLosses }

// String describes, for users, why a Machine whose server is lost is not replaced; empty unless too many servers are lost. It has no exact
// number, because it is shown in conditions.
func (l losses) String() string {
	if !l.areTooMany() {
		return ""
	}
	return fmt.Sprintf("more than %d Machines of this project have lost their servers at once: a Machine whose Node is Ready is replaced only when its Node is not Ready any more, or when a person deletes the Machine",
		fewLosses)
}

// Held returns, for users, why the loss of a server counts only for a Machine whose Node is not Ready; empty when it counts for each.
func (p *Project) Held() string { return p.losses(fewLosses + 1).String() }

// mayHaveLost reports whether the loss of the Machine's server may be held. The server of a Machine that is being deleted is to go.
func mayHaveLost(m *Machine) bool { return m.ServerID != "" && !m.Leaving }

// losses counts the losses among the Machines that are replaced when they lose their servers, but no more than most. A Machine that has
// another server has lost none.
func (p *Project) losses(most losses) (l losses) {
	if p.fulls == 0 {
		return 0
	}
	for m := range p.machines.All() {
		if l >= most {
			return l
		}
		k := p.Servers.get(m.ServerID)
		switch {
		case m.ServerID == "", m.Leaving, !m.Replaced:
			continue
		case k == nil && m.Recorded != p.site, k != nil && (k.present() || k.machine() != m.UID):
			continue
		}
		if living, _ := p.Servers.ofMachine(m.UID); len(living) == 0 || len(living) == 1 && living[0] == k {
			l++
		}
	}
	return l
}
