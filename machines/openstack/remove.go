package openstack

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/fault"
)

// DeleteServer asks for every server of the Machine to be deleted, each at most once per back-off (30 s, doubling to
// 5 min). A 404 is no proof (Nova says so of a server that it has just begun to make): Observe finds out.
func (i *instance) DeleteServer(ctx context.Context) error {
	return i.deleteServers(ctx, func(*knownServer) bool { return true })
}

// DeleteFailed does so with the servers in ERROR alone: of a create with an unknown outcome there may be another one.
func (i *instance) DeleteFailed(ctx context.Context) error {
	return i.deleteServers(ctx, func(k *knownServer) bool { return k.Status == statusError })
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
	living, _ := p.inventory.ofMachine(i.subject.uid, i.serverID)
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

// Release deletes the floating IP and the ports, once no server is left, sees the recorded volumes gone, and tells whether
// all is done. An attempt that is not settled is looked for, and waited for. While the mass guard holds the Machine's
// server nothing is touched.
func (i *instance) Release(ctx context.Context) (bool, error) {
	p, err := i.ready()
	if err != nil {
		return false, err
	}
	if i.facts(p).Server != nil || i.held(p) {
		return false, nil
	}
	if err := i.findAttempts(ctx, p); err != nil {
		return false, err
	}
	if err := i.releaseAddresses(ctx, p); err != nil {
		return false, err
	}
	for n, port := range p.portsOf(i.subject.uid) {
		if err := i.deletePort(ctx, p, n, port); err != nil {
			return false, err
		}
	}
	volumesGone, err := i.releaseVolumes(ctx, p)
	if err != nil || !volumesGone || p.hasOpenAttempts(i.subject.uid) {
		return false, err
	}
	i.cloud.machines.forget(i.subject.uid)
	return true, nil
}

// held tells whether the mass guard does not believe that the Machine's server is gone.
func (i *instance) held(p *project) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, gone := p.inventory.ofMachine(i.subject.uid, i.serverID)
	return p.holds(gone)
}

// releaseAddresses deletes the floating IP that bears the Machine's mark, and the one that machine-controller made for it
// and named in an annotation: that annotation is ownership.
func (i *instance) releaseAddresses(ctx context.Context, p *project) error {
	if ip, ok := p.ipOf(i.subject.uid); ok {
		if err := i.deleteIP(ctx, ip); err != nil {
			return err
		}
		p.forgetIP(i.subject.uid)
	}
	if i.address == "" {
		return nil
	}
	return i.deleteIP(ctx, ownedIP{id: i.address, address: i.address})
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
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("deleting port %d of server %s", n, i.subject.server)}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return ports.Delete(ctx, api, port.id).ExtractErr()
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	p.forgetPort(i.subject.uid, n)
	return nil
}
