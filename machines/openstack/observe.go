package openstack

import (
	"context"
	"maps"
	"net"
	"slices"
	"sort"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Observe says what is known, from memory. It asks for one server by its ID only when that server is named or known and
// no list shows it, or a port is bound to it, for only so an absence becomes a proof, and once when it is in ERROR and the list does not say why.
func (i *instance) Observe(ctx context.Context) (cloud.Facts, error) {
	p, err := i.project()
	if p == nil {
		return cloud.Facts{}, err
	}
	p.mu.Lock()
	living, gone := p.inventory.ofMachine(i.subject.uid, i.serverID)
	doubtful := doubtfulServer(living, gone, i.serverID)
	if doubtful == "" && len(living) == 0 {
		doubtful = p.boundServer(i.subject.uid)
	}
	if p.guard.held[doubtful] {
		doubtful = ""
	}
	stray, owner := "", types.UID("")
	if len(living)+len(gone) == 0 && i.serverID == "" {
		stray, owner = p.namesake(&i.subject)
	}
	failed := slices.IndexFunc(living, (*knownServer).unexplained)
	p.mu.Unlock()
	switch {
	case stray != "":
		if err := i.claim(ctx, p, stray, owner); err != nil {
			return cloud.Facts{}, err
		}
	case doubtful != "":
		if err := i.prove(ctx, p, doubtful); err != nil {
			return cloud.Facts{}, err
		}
	case failed >= 0:
		// Without an answer the server is in ERROR all the same.
		_ = i.prove(ctx, p, living[failed].ID)
	}
	return i.facts(p), nil
}

// doubtfulServer gives the ID of a server whose existence a GET must settle: one that a full list did not have, or one
// that the Machine names and nobody has seen. Empty: none.
func doubtfulServer(living, gone []*knownServer, serverID string) string {
	for _, k := range living {
		if k.missing {
			return k.ID
		}
	}
	if serverID == "" {
		return ""
	}
	is := func(k *knownServer) bool { return k.ID == serverID }
	if slices.ContainsFunc(living, is) || slices.ContainsFunc(gone, is) {
		return ""
	}
	return serverID
}

// prove asks for one server: 404 buries it, an answer brings it back.
func (i *instance) prove(ctx context.Context, p *project, id string) error {
	var body struct {
		Server row `json:"server"`
	}
	err := i.do(ctx, client.Call{Service: client.Compute, Doing: "looking up server " + id, Version: client.VersionServers}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("servers", id), &body, nil)
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case fault.Is(err, fault.NotFound):
		_, known := p.inventory.servers[id]
		p.inventory.bury(id, i.subject.uid, p.clock.Now())
		if k := p.inventory.servers[id]; !known && id != i.serverID {
			// Only a port spoke of it: no Machine has ever counted on it.
			k.own = true
		}
		p.watchLosses(p.clock.Now())
		return nil
	case err != nil:
		return err
	}
	p.inventory.merge(body.Server, p.clock.Now())
	if k := p.inventory.servers[id]; k != nil {
		k.explained = k.Status == statusError
		p.faultyQuotas([]string{id})
	}
	return nil
}

func (i *instance) facts(p *project) cloud.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, gone := p.inventory.ofMachine(i.subject.uid, i.serverID)
	ip, hasIP := p.floating[i.subject.uid]
	ports := p.ports[i.subject.uid]
	f := cloud.Facts{
		Gone:        len(living) == 0 && len(gone) > 0 && !p.holds(gone),
		Leftovers:   hasIP || len(ports) > 0 || p.hasAttempt(i.subject.uid) || len(i.volumes) > 0 || i.address != "",
		Held:        p.guard.reason(),
		QuotaRaised: p.quota.raised,
	}
	chosen := choose(living, i.serverID)
	for _, k := range living {
		if s := i.server(k, ports, ip); k == chosen {
			f.Server = s
		} else {
			f.Twins = append(f.Twins, s)
		}
	}
	f.Synced = f.Server != nil || !p.suspected(i.subject.uid)
	return f
}

// holds tells whether the mass guard does not believe that one of these servers is gone; the caller holds the lock.
func (p *project) holds(gone []*knownServer) bool {
	return slices.ContainsFunc(gone, func(k *knownServer) bool { return p.guard.held[k.ID] })
}

// server tells of a server as the seam wants it. Addresses of our own port and floating IP count from the moment they
// are known: Nova learns of a floating IP late, and lists of changes never show it.
func (i *instance) server(k *knownServer, ports map[int]ownedPort, ip ownedIP) *cloud.Server {
	s := &cloud.Server{
		ID: k.ID, Name: k.Name, Status: k.Status, State: stateOf(&k.row), ProviderID: i.providerID(k.ID), Owner: k.machine(),
		Created: k.Created, Zone: k.Zone, HostID: k.HostID, Addresses: addressesOf(&k.row, ports, ip),
		VolumeIDs: volumesOf(&k.row), FloatingIPID: ip.id,
	}
	for _, n := range slices.Sorted(maps.Keys(ports)) {
		s.PortIDs = append(s.PortIDs, ports[n].id)
	}
	if s.State == cloud.ServerError {
		s.Fault = client.JudgeServer(k.ID, k.Fault.Message)
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
