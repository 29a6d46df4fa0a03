package state

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// ownedByOther returns the reason why a server is not the Machine's, although the Machine names or must adopt it. It returns an
// empty string when the server is the Machine's or is not known to exist.
func (p *Project) ownedByOther(m *Machine) string {
	for _, id := range []string{m.Adopts, m.ServerID} {
		k := p.Servers.get(id)
		if k == nil || k.gone || !k.sighted || k.belongsTo(m.UID) {
			continue
		}
		if m.Refusal != "" && id == m.Adopts {
			return m.Refusal
		}
		_, reason := p.cluster.JudgeServer(m, k.Tags(), ExistenceUnknown)
		return reason
	}
	return ""
}

// had returns the ID of a server in gone that belonged to the Machine; empty when there is none. If there are several, it prefers
// the server that the Machine names.
func had(m *Machine, gone []*server) string {
	last := ""
	for _, k := range gone {
		if k.belongsTo(m.UID) && (last == "" || k.ID == m.ServerID) {
			last = k.ID
		}
	}
	return last
}

// absent reports whether a Machine without a living server is proven to have none. gone are its former servers. When absent
// returns false because too little is known of the Machine's server, unknown is the reason in words; otherwise unknown is empty.
func (p *Project) absent(m *Machine, gone []*server) (proven bool, unknown string) {
	unrecorded := m.Recorded == Site{}
	switch {
	case m.ServerID == "" && p.adopteeMissing(m):
		return false, fmt.Sprintf("server %s, which the annotation %s names, is not in %s", m.Adopts, v1alpha1.AnnotationAdopt, p.site)
	case m.ServerID == "" && unrecorded:
		return len(gone) > 0, ""
	case unrecorded && p.ownedByOther(m) != "":
		return false, ""
	}
	if m.ServerID != "" {
		gone = p.tombstone(m.ServerID)
	}
	seen := slices.ContainsFunc(gone, func(k *server) bool { return k.sighted && k.belongsTo(m.UID) })
	if answer, reason := p.cluster.JudgeAbsence(m, p.site, seen); answer != Mine {
		return false, reason
	}
	return len(gone) > 0, ""
}

// adopteeMissing reports whether an operator allows the Machine to adopt a server that does not exist and never belonged to the
// Machine. It returns false for a Machine that is being deleted, because that Machine does not wait for the server.
func (p *Project) adopteeMissing(m *Machine) bool {
	if m.Adopts == "" || m.Leaving {
		return false
	}
	k := p.Servers.get(m.Adopts)
	return k == nil || k.gone && !k.belongsTo(m.UID)
}

// tombstone returns the server with that ID if it is known to be gone, and nil otherwise.
func (p *Project) tombstone(id string) []*server {
	if k := p.Servers.get(id); k != nil && k.gone {
		return []*server{k}
	}
	return nil
}
