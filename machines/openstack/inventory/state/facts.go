package state

import (
	"fmt"
	"strings"
	"time"

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
		QuotaRaised: p.Quotas.raisedAt(),
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
		f.Held = p.Held()
	}
	switch {
	case f.Server == nil:
		f.Had = keyOf(had(m, gone))
		f.Gone, f.Unknown = p.absent(m, gone)
	case m.ServerID != "" && m.ServerID != f.Server.ID && m.Recorded != Site{}:
		_, f.Unknown = p.absent(m, gone)
	}
	f.Synced = f.Server != nil || !p.Creates.isInherited(p.serverTag(m.UID))
	return f
}

// ServerOf returns the Machine's server, with the field ProviderID left empty; nil when the Machine has no server.
func (p *Project) ServerOf(m *Machine) *cloud.Server {
	living, _ := p.Servers.ofMachine(m.UID)
	own := choose(living, m.ServerID)
	if own == nil {
		return nil
	}
	return p.server(m, own)
}

// server converts a server into the type of package cloud. The addresses of the Machine's own ports and floating IP and of subports are included
// as soon as they are known: Nova learns of a floating IP late, and lists of changed servers never show it.
func (p *Project) server(m *Machine, k *server) *cloud.Server {
	ip, _ := p.Addresses.FloatingIP(m.UID)
	record := &provider.Record{
		ServerID: k.ID, Zone: k.Zone, HostID: k.HostID, VolumeIDs: k.ending, FloatingIPID: ip.ID, PortIDs: p.Addresses.portIDs(m.UID),
		ProjectID: p.site.Project, Region: p.site.Region,
	}
	if record.FloatingIPID == "" && p.Addresses.placeOf(m.FloatingIPID).ServerID == k.ID {
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
		s.Fault = client.JudgeServer(k.ID, k.Fault.Code, k.Fault.Message)
	case s.State != cloud.ServerDeleting && k.detached != "" && !m.Joined:
		s.State, s.Fault = cloud.ServerError, k.detachedFault()
	}
	return s
}

// keyOf returns the key by which servers are compared: the server's ID in lower case, as in a parsed provider ID.
func keyOf(id string) cloud.ServerID { return cloud.ServerID(strings.ToLower(id)) }
