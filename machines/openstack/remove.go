package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/fault"
)

// DeleteServer asks for every server of the Machine to be deleted, each at most once per back-off (30 s, doubling to
// 5 min). A 404 is no proof (Nova says so of a server that it has just begun to make): Observe finds out.
func (i *instance) DeleteServer(ctx context.Context) error {
	p, err := i.ready()
	if err != nil {
		return err
	}
	for _, id := range i.deletable(p) {
		asking := call{service: computeService, doing: fmt.Sprintf("deleting server %s (%s)", i.subject.server, id)}
		err := i.connection.session.do(ctx, asking, func(ctx context.Context, client *gophercloud.ServiceClient) error {
			return servers.Delete(ctx, client, id).ExtractErr()
		})
		p.asked(id, err)
		p.kick()
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// deletable gives the servers whose turn it is.
func (i *instance) deletable(p *project) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, _ := p.inventory.ofMachine(i.subject.uid, i.serverID)
	now := p.clock.Now()
	var ids []string
	for _, k := range living {
		if k.asked.IsZero() || now.Sub(k.asked) >= deleteBackoff(k.times) {
			ids = append(ids, k.ID)
		}
	}
	return ids
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
		k.times++
	case fault.Is(err, fault.NotFound):
		k.missing = true
	}
}

// Release deletes the floating IP and the ports, once no server is left, and tells whether all is done. An attempt that
// is not settled is looked for, and waited for.
func (i *instance) Release(ctx context.Context) (bool, error) {
	p, err := i.ready()
	if err != nil {
		return false, err
	}
	if f := i.facts(p); f.Server != nil {
		return false, nil
	}
	if err := i.findAttempts(ctx, p); err != nil {
		return false, err
	}
	if ip, ok := p.ipOf(i.subject.uid); ok {
		if err := i.deleteIP(ctx, p, ip); err != nil {
			return false, err
		}
	}
	for n, port := range p.portsOf(i.subject.uid) {
		if err := i.deletePort(ctx, p, n, port); err != nil {
			return false, err
		}
	}
	if p.attemptsOf(i.subject.uid) > 0 {
		return false, nil
	}
	i.cloud.forget(i.subject.uid)
	return true, nil
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

func (i *instance) deleteIP(ctx context.Context, p *project, ip ownedIP) error {
	asking := call{service: networkService, doing: fmt.Sprintf("deleting floating IP %s of server %s", ip.address, i.subject.server)}
	err := i.connection.session.do(ctx, asking, func(ctx context.Context, client *gophercloud.ServiceClient) error {
		return floatingips.Delete(ctx, client, ip.id).ExtractErr()
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	p.forgetIP(i.subject.uid)
	return nil
}

func (i *instance) deletePort(ctx context.Context, p *project, n int, port ownedPort) error {
	asking := call{service: networkService, doing: fmt.Sprintf("deleting port %d of server %s", n, i.subject.server)}
	err := i.connection.session.do(ctx, asking, func(ctx context.Context, client *gophercloud.ServiceClient) error {
		return ports.Delete(ctx, client, port.id).ExtractErr()
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	p.forgetPort(i.subject.uid, n)
	return nil
}
