package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/provider"
)

// Facts returns what is known of a Machine's resources. The field ProviderID of the servers is empty, and Leftovers does not
// count the volumes in the Machine's status.
func (p *Project) Facts(m *Machine) cloud.Facts {
	living, gone := p.Servers.ofMachine(m.UID)
	f := cloud.Facts{
		Leftovers:   p.HasAddresses(m.UID) || m.FloatingIPID != "",
		QuotaRaised: p.Quotas.raised,
		Foreign:     p.ownedByOther(m),
		Place:       &provider.Record{ProjectID: p.site.Project, Region: p.site.Region},
	}
	if p.outdated {
		f.Outdated = fmt.Sprintf("listing the servers has failed since %s: %s", p.failingSince.UTC().Format(time.RFC3339), fault.Of(p.failure).Message)
	}
	chosen := choose(living, m.ServerID)
	for _, k := range living {
		if s := p.server(m, k); k == chosen {
			f.Server = s
		} else {
			f.Duplicates = append(f.Duplicates, s)
		}
	}
	if f.Server == nil && mayHaveLost(m) {
		f.Held = p.held()
	}
	switch {
	case f.Server == nil:
		f.Had = keyOf(had(m, gone))
		f.Gone, f.Unknown = p.absent(m, gone)
	case m.ServerID != "" && m.ServerID != f.Server.ID && m.Recorded != Site{}:
		_, f.Unknown = p.absent(m, gone)
	}
	f.Synced = f.Server != nil || !p.creates[p.serverTag(m.UID)].inherited
	return f
}

// server converts a server into the type of package cloud. The addresses of the Machine's own ports and floating IP and of subports are included
// as soon as they are known: Nova learns of a floating IP late, and lists of changed servers never show it.
func (p *Project) server(m *Machine, k *server) *cloud.Server {
	ip := p.Addresses.floating[m.UID]
	record := &provider.Record{
		ServerID: k.ID, Zone: k.Zone, HostID: k.HostID, VolumeIDs: k.ending, FloatingIPID: ip.ID, PortIDs: p.Addresses.portIDs(m.UID),
		ProjectID: p.site.Project, Region: p.site.Region,
	}
	if record.FloatingIPID == "" && p.Addresses.untagged[m.FloatingIPID].ServerID == k.ID {
		record.FloatingIPID = m.FloatingIPID
	}
	s := &cloud.Server{
		ID: k.ID, Key: keyOf(k.ID), Name: k.Name, Status: k.Status, State: k.State(), Busy: k.Busy(), Owner: k.machine(), Created: p.onOwnClock(k.Created), HostID: k.HostID,
		Addresses: k.NodeAddresses(p.Addresses.internal(m.UID, k.ID), ip.Address), Record: record, Adopted: m.Adopts == k.ID,
	}
	if s.Seen = k.since; p.current.After(s.Seen) {
		s.Seen = p.current
	}
	switch {
	case s.State == cloud.ServerError:
		s.Fault = client.ServerFault(k.ID, k.Fault.Code, k.Fault.Message)
	case s.State != cloud.ServerDeleting && k.detached != "" && !m.Joined:
		s.State, s.Fault = cloud.ServerError, fault.New(fault.Transient, fault.CodeServerError, "%s", k.detached)
	}
	return s
}

// keyOf returns the key by which servers are compared: the server's ID in lower case, as in a parsed provider ID.
func keyOf(id string) cloud.ServerID { return cloud.ServerID(strings.ToLower(id)) }

// ownedByOther returns the reason why a server is not the Machine's, although the Machine names or must adopt it. It returns an
// empty string when the server is the Machine's or is not known to exist.
func (p *Project) ownedByOther(m *Machine) string {
	for _, id := range []string{m.Adopts, m.ServerID} {
		k := p.Servers.byID[id]
		if k == nil || k.gone() || !k.sighted || k.belongsTo(m.UID) {
			continue
		}
		if m.Refusal != "" && id == m.Adopts {
			return m.Refusal
		}
		reason, _ := p.cluster.WhyForeign(m, &k.ServerRow, ExistenceUnknown)
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
		gone = nil
		if k := p.Servers.byID[m.ServerID]; k != nil && k.gone() {
			gone = []*server{k}
		}
	}
	seen := slices.ContainsFunc(gone, func(k *server) bool { return k.sighted && k.belongsTo(m.UID) })
	unknown = doubtAbsence(m, p.site, seen)
	return unknown == "" && len(gone) > 0, unknown
}

// adopteeMissing reports whether an operator allows the Machine to adopt a server that does not exist and never belonged to the
// Machine. It returns false for a Machine that is being deleted, because that Machine does not wait for the server.
func (p *Project) adopteeMissing(m *Machine) bool {
	if m.Adopts == "" || m.Leaving {
		return false
	}
	k := p.Servers.byID[m.Adopts]
	return k == nil || k.gone() && !k.belongsTo(m.UID)
}

// InDoubt returns the ID of a server of the Machine that drover must look up by its ID; empty when there is none. required is
// false when the server is in ERROR and only the reason is unknown: even if the look-up fails, the state of the server is known.
func (p *Project) InDoubt(m *Machine) (serverID string, required bool) {
	living, _ := p.Servers.ofMachine(m.UID)
	if id := p.doubtful(m, living); id != "" {
		return id, true
	}
	if failed := slices.IndexFunc(living, (*server).unexplained); failed >= 0 {
		return living[failed].ID, false
	}
	return "", false
}

// doubtful returns the ID of a server whose existence a GET must prove; empty when there is none. It returns the first of these:
//   - a server of the Machine that was missing from the last complete list;
//   - the server that spec.providerID names, when no list has shown it or it was missing from the last complete list;
//   - the server that one of the Machine's ports is bound to, when the Machine has no other server.
//
// It returns no server before the first complete list. While too many servers are lost at once, it returns none of a Machine with a Ready Node,
// because the answer would change nothing, and a failed cell of a cloud would get a request for each of its servers again and again.
func (p *Project) doubtful(m *Machine, living []*server) string {
	id := ""
	for _, k := range living {
		if k.fate == missing {
			id = k.ID
		}
	}
	if k := p.Servers.byID[m.ServerID]; id == "" && (k == nil || k.fate == missing) {
		id = m.ServerID
	}
	if id == "" && len(living) == 0 {
		id = p.boundServer(m.UID)
	}
	if id == "" || p.fulls == 0 || m.Ready && mayHaveLost(m) && p.held() != "" {
		return ""
	}
	return id
}

// LookedUp records the answer to a GET of a server that was made for a Machine. A 404 proves that the server is gone; other errors
// change nothing.
func (p *Project) LookedUp(m *Machine, serverID string, found *ServerRow, err error, now time.Time) {
	switch {
	case fault.Is(err, fault.NotFound):
		p.Servers.markGone(serverID, m.UID, now)
		return
	case err != nil:
		return
	}
	p.Servers.merge(*found, now)
	if k := p.Servers.byID[serverID]; k != nil {
		k.explained = k.Status == statusError
		p.readFaults([]string{serverID}, now)
	}
}

// fewLosses is how many Machines may be replaced because their servers are missing while their Nodes are Ready.
const fewLosses = 3

// held returns, for users, why the loss of a server counts only for a Machine whose Node is not Ready; empty when it counts for each. It
// has no exact number, because it is shown in conditions.
func (p *Project) held() string {
	if p.losses(fewLosses+1) <= fewLosses {
		return ""
	}
	return fmt.Sprintf("more than %d Machines of this project have lost their servers at once: a Machine whose Node is Ready is replaced only when its Node is not Ready any more, or when a person deletes the Machine",
		fewLosses)
}

// mayHaveLost reports whether the loss of the Machine's server may be held. The server of a Machine that is being deleted is to go.
func mayHaveLost(m *Machine) bool { return m.ServerID != "" && !m.Leaving }

// losses counts the losses among the Machines that are replaced when they lose their servers, but no more than most. A Machine that has
// another server has lost none.
func (p *Project) losses(most int) (lost int) {
	if p.fulls == 0 {
		return 0
	}
	for m := range p.machines.All() {
		if lost >= most {
			return lost
		}
		k := p.Servers.byID[m.ServerID]
		switch {
		case m.ServerID == "", m.Leaving, !m.Replaced:
			continue
		case k == nil && m.Recorded != p.site, k != nil && (k.fate == present || k.machine() != m.UID):
			continue
		}
		if living, _ := p.Servers.ofMachine(m.UID); len(living) == 0 || len(living) == 1 && living[0] == k {
			lost++
		}
	}
	return lost
}
