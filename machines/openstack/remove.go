package openstack

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// DeleteServer asks for every server that belongs to the Machine to be deleted, each at most once per back-off (30 s, doubling to
// 5 min). A 404 is no proof (Nova says so of a server that it has just begun to make): Observe finds out.
func (i *instance) DeleteServer(ctx context.Context) error {
	return i.deleteServers(ctx, func(*knownServer) bool { return true })
}

// DeleteFailed deletes only servers in ERROR and those that have lost their ports: after a create with an unknown outcome
// another one may work.
func (i *instance) DeleteFailed(ctx context.Context) error {
	return i.deleteServers(ctx, (*knownServer).failed)
}

func (i *instance) deleteServers(ctx context.Context, which func(*knownServer) bool) error {
	p, err := i.ready()
	if err != nil {
		return err
	}
	for _, target := range i.deletable(p, which) {
		err := i.deleteServer(ctx, target)
		p.asked(target.id, err)
		if !fault.Is(err, fault.RateLimited) {
			p.kick()
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// forceAfter is how often a deletion is asked for politely: from the fourth time on (3.5 min after the first) Nova is told
// to delete the server whatever it is doing.
const forceAfter = 3

// target is a server to be deleted, and whether by force.
type target struct {
	id    string
	force bool
}

// deleteServer asks once. A cloud that does not let us force is asked politely again.
func (i *instance) deleteServer(ctx context.Context, t target) error {
	asking := client.Call{Service: client.Compute, Doing: fmt.Sprintf("deleting server %s (%s)", i.subject.server, t.id)}
	politely := func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return servers.Delete(ctx, api, t.id).ExtractErr()
	}
	if !t.force {
		return i.do(ctx, asking, politely)
	}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return servers.ForceDelete(ctx, api, t.id).ExtractErr()
	})
	if fault.Is(err, fault.Auth) || fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid) {
		return i.do(ctx, asking, politely)
	}
	return err
}

// deletable gives those of the servers whose turn it is.
func (i *instance) deletable(p *project, which func(*knownServer) bool) []target {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, _ := p.inventory.ofMachine(i.subject.uid)
	now := p.clock.Now()
	var turn []target
	for _, k := range living {
		if which(k) && (k.asked.IsZero() || now.Sub(k.asked) >= deleteBackoff(k.times)) {
			turn = append(turn, target{k.ID, k.times >= forceAfter})
		}
	}
	return turn
}

// asked notes a request to delete. One that was refused for the moment may be repeated by whoever asks next.
func (p *project) asked(id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.inventory.servers[id]
	switch {
	case !ok:
	case err == nil:
		k.asked = p.clock.Now()
		if k.times++; k.firstAsked.IsZero() {
			k.firstAsked = k.asked
		}
	case fault.Is(err, fault.NotFound):
		k.missing = true
	}
}

// Release deletes the floating IP and the ports, once no server is left, and sees the recorded volumes gone. An attempt that
// is not settled is looked for, and waited for. Nothing is touched while the mass guard holds the Machine's server, or while
// nothing is known of it.
func (i *instance) Release(ctx context.Context) (cloud.Released, error) {
	var none cloud.Released
	p, err := i.ready()
	if err != nil {
		return none, err
	}
	if f := i.facts(p); f.Server != nil || f.Unknown != "" || i.held(p) {
		return none, nil
	}
	if err := i.findAttempts(ctx, p); err != nil {
		return none, err
	}
	left, err := i.releaseAddresses(ctx, p)
	if err != nil {
		return none, err
	}
	for n, port := range p.portsOf(i.subject.uid) {
		if err := i.deletePort(ctx, p, n, port); err != nil {
			return none, err
		}
	}
	volumesGone, volumesLeft, err := i.releaseVolumes(ctx, p)
	if err != nil || !volumesGone || p.hasOpenAttempts(i.subject.uid) {
		return none, err
	}
	i.cloud.machines.forget(i.subject.uid)
	return cloud.Released{Done: true, Left: append(left, volumesLeft...)}, nil
}

// held reports whether the mass guard does not believe that the Machine's server is gone.
func (i *instance) held(p *project) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, gone := p.inventory.ofMachine(i.subject.uid)
	return p.isHeld(gone)
}

// releaseAddresses deletes the floating IP that has the Machine's mark, and the one that an annotation names when that was
// the Machine's too. Otherwise it says what is left.
func (i *instance) releaseAddresses(ctx context.Context, p *project) (left []string, err error) {
	if ip, ok := p.ipOf(i.subject.uid); ok {
		if err := i.deleteIP(ctx, ip); err != nil {
			return nil, err
		}
		p.forgetIP(i.subject.uid)
	}
	if i.address == "" {
		return nil, nil
	}
	if !providerid.IsUUID(i.address) {
		return []string{fmt.Sprintf("annotation %s: %.64q is not the ID of a floating IP", v1alpha1.FinalizerFloatingIP, i.address)}, nil
	}
	ip, err := i.namedIP(ctx)
	if err != nil || ip == nil {
		return nil, err
	}
	if p.owners.address(i.claimant, floatingKind, ip.Description, i.wasOnOwn(p, ip)) != mine {
		return []string{fmt.Sprintf("floating IP %s (%s) exists and was left alone: the annotation %s names it, and nothing in the cloud shows that it was this Machine's", ip.ID, ip.Address, v1alpha1.FinalizerFloatingIP)}, nil
	}
	return nil, i.deleteIP(ctx, ownedIP{id: ip.ID, address: ip.Address})
}

// namedIP reads the floating IP that the annotation names; nil when there is none.
func (i *instance) namedIP(ctx context.Context) (*ipRow, error) {
	var body struct {
		FloatingIP ipRow `json:"floatingip"`
	}
	looking := client.Call{Service: client.Network, Doing: fmt.Sprintf("looking up floating IP %s of server %s", i.address, i.subject.server)}
	err := i.do(ctx, looking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("floatingips", i.address), &body, nil)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return &body.FloatingIP, err
}

// wasOnOwn reports whether a floating IP was on the Machine's own server: the inventory has seen it there, or the record
// says so and nobody else can write that. One that is on a port now that is not of that server is not the Machine's any more.
func (i *instance) wasOnOwn(p *project, ip *ipRow) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, gone := p.inventory.ofMachine(i.subject.uid)
	seen := p.seenIPs[ip.ID]
	onOwn := slices.ContainsFunc(gone, func(k *knownServer) bool { return k.ID == seen.serverID && k.belongs(i.subject.uid) })
	if ip.PortID != "" {
		return onOwn && seen.portID == ip.PortID
	}
	return onOwn || i.trusted && i.recorded.FloatingIPID == ip.ID
}

// findAttempts looks for what earlier calls may have made; what does not turn up in time was not made.
func (i *instance) findAttempts(ctx context.Context, p *project) error {
	for _, m := range p.openAttempts(i.subject.uid) {
		var found bool
		var err error
		switch m.kind {
		case portKind:
			found, err = i.findPort(ctx, p, m)
		case floatingKind:
			found, err = i.findIP(ctx, p, m)
		}
		if err != nil {
			return err
		}
		if !found {
			// Settled or not: mayMake drops the attempt when its time is over, and Release asks what is left.
			_ = p.mayMake(m)
		}
	}
	return nil
}

func (i *instance) deleteIP(ctx context.Context, ip ownedIP) error {
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("deleting floating IP %s of server %s", ip.address, i.subject.server)}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Delete(ctx, api, ip.id).ExtractErr()
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (i *instance) deletePort(ctx context.Context, p *project, n int, port ownedPort) error {
	if err := i.askToDeletePort(ctx, n, port); err != nil {
		return err
	}
	p.forgetPort(i.subject.uid, n)
	return nil
}

// askToDeletePort deletes a port in the cloud; that it is gone already is no error.
func (i *instance) askToDeletePort(ctx context.Context, n int, port ownedPort) error {
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("deleting port %d of server %s", n, i.subject.server)}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return ports.Delete(ctx, api, port.id).ExtractErr()
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
