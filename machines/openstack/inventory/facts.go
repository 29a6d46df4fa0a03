package inventory

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Facts returns what is known of a Machine's cloud side. It makes no call. Servers have no ProviderID, and Leftovers does not
// count the volumes that the Machine's status names.
func (p *Project) Facts(m *Machine) cloud.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, gone := p.servers.ofMachine(m.UID)
	_, hasIP := p.floating[m.UID]
	f := cloud.Facts{
		Leftovers:   hasIP || len(p.ports[m.UID]) > 0 || p.hasAttempts(m.UID) || m.FloatingIPID != "",
		Held:        p.guard.reason(),
		QuotaRaised: p.quota.raised,
		Foreign:     p.foreign(m),
		ProjectID:   p.site.Project,
		Region:      p.site.Region,
	}
	chosen := choose(living, m.ServerID)
	for _, k := range living {
		if s := p.server(m, k); k == chosen {
			f.Server = s
		} else {
			f.Twins = append(f.Twins, s)
		}
	}
	switch {
	case f.Server == nil:
		f.Had = had(m, gone)
		f.Gone, f.Unknown = p.absent(m, gone)
	case m.ServerID != "" && m.ServerID != f.Server.ID && m.Recorded != Site{}:
		_, f.Unknown = p.absent(m, gone)
	}
	f.Synced = f.Server != nil || !p.suspected(m.UID)
	return f
}

// ServerOf returns the Machine's server without its ProviderID; nil when the Machine has none. It makes no call.
func (p *Project) ServerOf(m *Machine) *cloud.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, _ := p.servers.ofMachine(m.UID)
	own := choose(living, m.ServerID)
	if own == nil {
		return nil
	}
	return p.server(m, own)
}

// foreign returns the reason when the server that the Machine names, or is to adopt, exists and belongs to somebody else; empty
// when it does not. The caller holds the lock.
func (p *Project) foreign(m *Machine) string {
	for _, id := range []string{m.Adopts, m.ServerID} {
		k := p.servers.byID[id]
		if k == nil || k.gone || !k.sighted || k.belongs(m.UID) {
			continue
		}
		if m.Refusal != "" && id == m.Adopts {
			return m.Refusal
		}
		_, reason := p.owners.server(m, k.tags(), existenceUnknown)
		return reason
	}
	return ""
}

// had returns the ID of a server that is gone and was the Machine's: the one that it names, if that was.
func had(m *Machine, gone []*knownServer) string {
	last := ""
	for _, k := range gone {
		if k.belongs(m.UID) && (last == "" || k.ID == m.ServerID) {
			last = k.ID
		}
	}
	return last
}

// absent decides, for a Machine of which no server lives, whether its server is proven gone, and why nothing is known of it
// otherwise. gone are the Machine's tombstones. The caller holds the lock.
func (p *Project) absent(m *Machine, gone []*knownServer) (proven bool, unknown string) {
	unrecorded := m.Recorded == Site{}
	switch {
	case m.ServerID == "" && p.adopteeMissing(m):
		return false, fmt.Sprintf("server %s, which the annotation %s names, is not in %s", m.Adopts, v1alpha1.AnnotationAdopt, p.site)
	case m.ServerID == "" && unrecorded:
		return len(gone) > 0 && p.believes(gone), ""
	case unrecorded && p.foreign(m) != "":
		return false, ""
	}
	if m.ServerID != "" {
		gone = p.tombstone(m.ServerID)
	}
	seen := slices.ContainsFunc(gone, func(k *knownServer) bool { return k.sighted && k.belongs(m.UID) })
	if answer, reason := p.owners.absence(m, p.site, seen); answer != mine {
		return false, reason
	}
	return len(gone) > 0 && p.believes(gone), ""
}

// adopteeMissing reports whether an operator lets the Machine adopt a server that is not there and never was the Machine's. A
// Machine that is being deleted does not wait for it. The caller holds the lock.
func (p *Project) adopteeMissing(m *Machine) bool {
	if m.Adopts == "" || m.Leaving {
		return false
	}
	k := p.servers.byID[m.Adopts]
	return k == nil || k.gone && !k.belongs(m.UID)
}

// tombstone returns the server of that ID when it is gone. The caller holds the lock.
func (p *Project) tombstone(id string) []*knownServer {
	if k := p.servers.byID[id]; k != nil && k.gone {
		return []*knownServer{k}
	}
	return nil
}

// server describes a server as the seam wants it. The addresses of the Machine's own ports and floating IP count from the
// moment they are known: Nova learns of a floating IP late, and lists of changes never show it. The caller holds the lock.
func (p *Project) server(m *Machine, k *knownServer) *cloud.Server {
	ports, ip := p.ports[m.UID], p.floating[m.UID]
	s := &cloud.Server{
		ID: k.ID, Name: k.Name, Status: k.Status, State: stateOf(&k.row), Owner: k.machine(),
		Created: k.Created, Zone: k.Zone, HostID: k.HostID, Addresses: addressesOf(&k.row, ports, ip),
		VolumeIDs: k.volumes, FloatingIPID: ip.ID, ProjectID: p.site.Project, Region: p.site.Region,
		Adopted: m.Adopts == k.ID,
	}
	if s.FloatingIPID == "" && p.seenIPs[m.FloatingIPID].serverID == k.ID {
		s.FloatingIPID = m.FloatingIPID
	}
	for _, n := range slices.Sorted(maps.Keys(ports)) {
		s.PortIDs = append(s.PortIDs, ports[n].ID)
	}
	switch {
	case s.State == cloud.ServerError:
		s.Fault = client.JudgeServer(k.ID, k.Fault.Message)
	case s.State != cloud.ServerDeleting && k.detached != "" && !m.Joined:
		s.State, s.Fault = cloud.ServerError, k.detachedFault()
	}
	return s
}

// volumesOf returns the IDs of the volumes that end with the server, sorted. A volume that was attached later is not among them.
func volumesOf(r *row) []string {
	var ids []string
	for _, v := range r.Volumes {
		if v.EndsWithServer {
			ids = append(ids, v.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// stateOf returns the state that status and task amount to.
func stateOf(r *row) cloud.ServerState {
	switch {
	case r.TaskState == taskDeleting, r.Status == statusDeleted, r.Status == statusSoftDeleted:
		return cloud.ServerDeleting
	case r.Status == statusBuild:
		return cloud.ServerBuilding
	case r.Status == statusActive:
		return cloud.ServerActive
	case r.Status == statusError:
		return cloud.ServerError
	}
	return cloud.ServerOther
}

// addressesOf returns the addresses sorted and without repeats: those of the networks inside, the floating ones outside,
// and the name.
func addressesOf(r *row, ports map[int]Port, ip FloatingIP) []corev1.NodeAddress {
	seen := map[corev1.NodeAddress]bool{}
	add := func(kind corev1.NodeAddressType, text string) {
		if net.ParseIP(text) != nil {
			seen[corev1.NodeAddress{Type: kind, Address: text}] = true
		}
	}
	for _, list := range r.Addresses {
		for _, a := range list {
			if a.Type == "floating" {
				add(corev1.NodeExternalIP, a.Address)
			} else {
				add(corev1.NodeInternalIP, a.Address)
			}
		}
	}
	for _, port := range ports {
		for _, a := range port.Addresses {
			add(corev1.NodeInternalIP, a)
		}
	}
	add(corev1.NodeExternalIP, ip.Address)
	out := make([]corev1.NodeAddress, 0, len(seen)+1)
	for a := range seen {
		out = append(out, a)
	}
	sort.Slice(out, func(a, b int) bool {
		if out[a].Type != out[b].Type {
			return out[a].Type > out[b].Type
		}
		return out[a].Address < out[b].Address
	})
	if r.Name != "" {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: r.Name})
	}
	return out
}
