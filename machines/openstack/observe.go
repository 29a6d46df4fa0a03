package openstack

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sort"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Observe returns what is known, from memory. It asks for one server by its ID only when that server is named or known and
// no list shows it, or a port is bound to it, for only so an absence becomes a proof, and once when it is in ERROR and the
// list does not say why.
func (i *instance) Observe(ctx context.Context) (cloud.Facts, error) {
	p, err := i.project()
	if p == nil {
		return cloud.Facts{}, err
	}
	if err := i.adopt(ctx, p); err != nil {
		return cloud.Facts{}, err
	}
	p.mu.Lock()
	living, _ := p.inventory.ofMachine(i.subject.uid)
	doubtful := i.doubtful(p, living)
	failed := slices.IndexFunc(living, (*knownServer).unexplained)
	p.mu.Unlock()
	switch {
	case doubtful != "":
		if err := i.prove(ctx, p, doubtful); err != nil {
			return cloud.Facts{}, err
		}
	case failed >= 0:
		// Without an answer the server is in ERROR all the same.
		_ = i.prove(ctx, p, living[failed].ID)
	}
	f := i.facts(p)
	if i.unnamed != nil && f.Server == nil && !i.leaving {
		return cloud.Facts{}, i.unnamed
	}
	return f, nil
}

// adopt makes the server that an operator lets the Machine take over the Machine's, when it may be. It is marked with the
// next list.
func (i *instance) adopt(ctx context.Context, p *project) error {
	p.mu.Lock()
	k := p.inventory.servers[i.claimant.adopts]
	if k == nil || k.gone || k.missing || k.belongs(i.subject.uid) {
		p.mu.Unlock()
		return nil
	}
	of := k.tags()
	p.mu.Unlock()
	owner := p.existence(ctx, of.machine)
	answer, reason := p.owners.server(i.claimant, of, owner)
	i.refusal = reason
	switch answer {
	case undecided:
		return fault.New(fault.Transient, fault.CodeUnsettled, "%s", reason)
	case adoptable:
		p.mu.Lock()
		claimed := p.inventory.claim(of.id, of.machine, i.subject.uid)
		p.mu.Unlock()
		if claimed {
			log.FromContext(ctx).Info("Adopting server by the operator's annotation", "server", of.id, "machineUID", i.subject.uid, "formerMachineUID", of.machine)
			p.kick()
		}
	}
	return nil
}

// doubtful returns the ID of a server whose existence a GET must settle, or an empty string. The first of these counts:
//   - a server of the Machine that the last complete list lacked;
//   - the server that spec.providerID names, when no list has shown it or the last complete list lacked it;
//   - the server that one of the Machine's ports is bound to, when the Machine has no other server.
//
// It returns no server that the mass guard holds. Before the first look of this process is done it returns none at all: that
// look asks for the servers that the first list lacks. The caller holds the lock.
func (i *instance) doubtful(p *project, living []*knownServer) string {
	id := ""
	for _, k := range living {
		if k.missing {
			id = k.ID
		}
	}
	if k := p.inventory.servers[i.serverID]; id == "" && (k == nil || k.missing) {
		id = i.serverID
	}
	if id == "" && len(living) == 0 {
		id = p.boundServer(i.subject.uid)
	}
	if p.guard.held[id] || !p.guard.ready {
		return ""
	}
	return id
}

// prove asks for one server: 404 buries it, an answer brings it back.
func (i *instance) prove(ctx context.Context, p *project, id string) error {
	found, err := lookUpServer(ctx, id, i.do)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	switch {
	case fault.Is(err, fault.NotFound):
		_, known := p.inventory.servers[id]
		p.inventory.bury(id, i.subject.uid, now)
		if k := p.inventory.servers[id]; !known && id != i.serverID {
			// The server is known only from a port; no Machine ever recorded it, so losing it is not a loss.
			k.own = true
		}
		if p.watchLosses(now) {
			p.kick()
		}
		return nil
	case err != nil:
		return err
	}
	p.inventory.merge(*found, now)
	if k := p.inventory.servers[id]; k != nil {
		k.explained = k.Status == statusError
		p.faultyQuotas([]string{id})
	}
	return nil
}

// doer makes a call with the credentials of somebody.
type doer func(ctx context.Context, c client.Call, fn func(ctx context.Context, api *gophercloud.ServiceClient) error) error

// lookUpServer asks for one server by its ID.
func lookUpServer(ctx context.Context, id string, do doer) (*row, error) {
	var body struct {
		Server row `json:"server"`
	}
	err := do(ctx, client.Call{Service: client.Compute, Doing: "looking up server " + id, Version: client.VersionServers}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("servers", id), &body, nil)
		return err
	})
	return &body.Server, err
}

func (i *instance) facts(p *project) cloud.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, gone := p.inventory.ofMachine(i.subject.uid)
	ip, hasIP := p.floating[i.subject.uid]
	ports := p.ports[i.subject.uid]
	f := cloud.Facts{
		Leftovers:   hasIP || len(ports) > 0 || p.hasAttempt(i.subject.uid) || len(i.recorded.VolumeIDs) > 0 || i.address != "",
		Held:        p.guard.reason(),
		QuotaRaised: p.quota.raised,
		Foreign:     i.foreign(p),
	}
	chosen := choose(living, i.serverID)
	for _, k := range living {
		if s := i.server(p, k, ports, ip); k == chosen {
			f.Server = s
		} else {
			f.Twins = append(f.Twins, s)
		}
	}
	switch {
	case f.Server == nil:
		f.Had = i.had(gone)
		f.Gone, f.Unknown = i.absent(p, gone)
	case i.serverID != "" && i.serverID != f.Server.ID && i.claimant.recorded != site{}:
		_, f.Unknown = i.absent(p, gone)
	}
	f.Synced = f.Server != nil || !p.suspected(i.subject.uid)
	return f
}

// foreign says that the server which the Machine names, or is to adopt, is there and somebody else's; empty: it is not. The
// caller holds the lock.
func (i *instance) foreign(p *project) string {
	for _, id := range []string{i.claimant.adopts, i.serverID} {
		k := p.inventory.servers[id]
		if k == nil || k.gone || !k.sighted || k.belongs(i.subject.uid) {
			continue
		}
		if i.refusal != "" && id == i.claimant.adopts {
			return i.refusal
		}
		_, reason := p.owners.server(i.claimant, k.tags(), existenceUnknown)
		return reason
	}
	return ""
}

// had returns the ID of a server that is gone and was the Machine's: the one that it names, if that was.
func (i *instance) had(gone []*knownServer) string {
	last := ""
	for _, k := range gone {
		if k.belongs(i.subject.uid) && (last == "" || k.ID == i.serverID) {
			last = k.ID
		}
	}
	return last
}

// absent decides, for a Machine of which no server lives, whether its server is proven gone, and why nothing is known of it
// otherwise. gone are the Machine's tombstones. The caller holds the lock.
func (i *instance) absent(p *project, gone []*knownServer) (proven bool, unknown string) {
	unrecorded := i.claimant.recorded == site{}
	switch {
	case i.serverID == "" && i.adopteeMissing(p):
		return false, fmt.Sprintf("server %s, which the annotation %s names, is not in %s", i.claimant.adopts, v1alpha1.AnnotationAdopt, p.name)
	case i.serverID == "" && unrecorded:
		return len(gone) > 0 && p.believes(gone), ""
	case unrecorded && i.foreign(p) != "":
		return false, ""
	}
	if i.serverID != "" {
		gone = p.tombstone(i.serverID)
	}
	seen := slices.ContainsFunc(gone, func(k *knownServer) bool { return k.sighted && k.belongs(i.subject.uid) })
	if answer, reason := p.owners.absence(i.claimant, p.name, seen); answer != mine {
		return false, reason
	}
	return len(gone) > 0 && p.believes(gone), ""
}

// adopteeMissing reports whether an operator lets the Machine adopt a server that is not there and never was the Machine's. A
// Machine that is being deleted does not wait for it. The caller holds the lock.
func (i *instance) adopteeMissing(p *project) bool {
	if i.claimant.adopts == "" || i.leaving {
		return false
	}
	k := p.inventory.servers[i.claimant.adopts]
	return k == nil || k.gone && !k.belongs(i.subject.uid)
}

// tombstone returns the server of that ID when it is gone. The caller holds the lock.
func (p *project) tombstone(id string) []*knownServer {
	if k := p.inventory.servers[id]; k != nil && k.gone {
		return []*knownServer{k}
	}
	return nil
}

// isHeld reports whether the mass guard does not believe that one of these servers is gone; the caller holds the lock.
func (p *project) isHeld(gone []*knownServer) bool {
	return slices.ContainsFunc(gone, func(k *knownServer) bool { return p.guard.held[k.ID] })
}

// server describes a server as the seam wants it. Addresses of our own port and floating IP count from the moment they
// are known: Nova learns of a floating IP late, and lists of changes never show it.
func (i *instance) server(p *project, k *knownServer, ports map[int]ownedPort, ip ownedIP) *cloud.Server {
	s := &cloud.Server{
		ID: k.ID, Name: k.Name, Status: k.Status, State: stateOf(&k.row), ProviderID: i.providerID(k.ID), Owner: k.machine(),
		Created: k.Created, Zone: k.Zone, HostID: k.HostID, Addresses: addressesOf(&k.row, ports, ip),
		VolumeIDs: k.volumes, FloatingIPID: ip.id, ProjectID: p.name.project, Region: p.name.region,
	}
	if s.FloatingIPID == "" && p.seenIPs[i.address].serverID == k.ID {
		s.FloatingIPID = i.address
	}
	for _, n := range slices.Sorted(maps.Keys(ports)) {
		s.PortIDs = append(s.PortIDs, ports[n].id)
	}
	switch {
	case s.State == cloud.ServerError:
		s.Fault = client.JudgeServer(k.ID, k.Fault.Message)
	case s.State != cloud.ServerDeleting && k.detached != "" && !i.joined:
		s.State, s.Fault = cloud.ServerError, k.detachedFault()
	}
	return s
}

// volumesOf gives the volumes that end with the server. What was attached later, by Kubernetes or a person, is none of them.
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

// stateOf sums up status and task.
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

// addressesOf gives the addresses sorted and without repeats: those of the networks inside, the floating ones outside,
// and the name.
func addressesOf(r *row, ports map[int]ownedPort, ip ownedIP) []corev1.NodeAddress {
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
		for _, a := range port.addresses {
			add(corev1.NodeInternalIP, a)
		}
	}
	add(corev1.NodeExternalIP, ip.address)
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
