package openstack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
)

// DeleteServer asks Nova to delete every server of the Machine. It repeats the request for a server only after a back-off (30 s,
// doubling to 5 min). A 404 does not prove that a server is gone, because Nova also returns it for a server whose create has just
// begun. Observe decides whether the server is gone.
func (i *instance) DeleteServer(ctx context.Context) error {
	return i.deleteServers(ctx, false)
}

// DeleteFailed deletes only servers in ERROR and servers that have lost their ports. After a create with an unknown outcome, another
// server of the Machine may work.
func (i *instance) DeleteFailed(ctx context.Context) error {
	return i.deleteServers(ctx, true)
}

func (i *instance) deleteServers(ctx context.Context, failedOnly bool) error {
	p, err := i.ready()
	if err != nil {
		return err
	}
	var due []state.Deletion
	p.With(func(s *state.Project) { due = s.Deletable(i.machine.UID, failedOnly, i.now()) })
	for _, target := range due {
		err := i.deleteServer(ctx, target)
		p.With(func(s *state.Project) { s.DeletionRequested(target.ServerID, err, i.now()) })
		if !fault.Is(err, fault.RateLimited) {
			p.Kick()
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// deleteServer asks Nova once to delete a server. When Nova refuses a forced delete, it makes a plain delete request instead.
func (i *instance) deleteServer(ctx context.Context, t state.Deletion) error {
	call := client.Call{Service: client.Compute, Doing: fmt.Sprintf("deleting server %s (%s)", i.machine.ServerName, t.ServerID)}
	plain := func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return servers.Delete(ctx, api, t.ServerID).ExtractErr()
	}
	if !t.Force {
		return i.do(ctx, call, plain)
	}
	err := i.do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return servers.ForceDelete(ctx, api, t.ServerID).ExtractErr()
	})
	switch e := fault.Of(err); {
	case err == nil:
		return nil
	case e.Class == fault.Auth, e.Class == fault.Conflict, e.Class == fault.Invalid, e.Class == fault.Unknown, e.Code == fault.CodeForeignAnswer:
		return i.do(ctx, call, plain)
	}
	return err
}

// Release deletes the floating IP and the ports once no server is left, and deletes the recorded volumes or waits for them. It
// looks for the resources of unresolved creates, and waits until they are resolved. It touches nothing while nothing is known of the
// Machine's server.
func (i *instance) Release(ctx context.Context) (cloud.Released, error) {
	none := cloud.Released{Waiting: "ports and floating IP are being deleted"}
	p, err := i.ready()
	if err != nil {
		return none, err
	}
	if f := i.facts(p); f.Server != nil || f.Unknown != "" {
		return none, nil
	}
	if err := i.findAttempts(ctx, p); err != nil {
		return none, err
	}
	if slices.Contains(p.ResourcesOf(i.machine.UID).InDoubt, i.tag(cloud.ResourceServer, 0)) {
		return cloud.Released{Waiting: "it is not known yet whether an earlier request created a server, which would use the ports and the floating IP; drover looks for it"}, nil
	}
	left, err := i.releaseAddresses(ctx, p)
	if err != nil {
		return none, err
	}
	for n, port := range p.ResourcesOf(i.machine.UID).Ports {
		if err := i.deletePort(ctx, n, port); err != nil {
			return none, err
		}
		p.With(func(s *state.Project) { s.Addresses.Forget(i.tag(cloud.ResourcePort, n), port.ID) })
	}
	volumes, err := i.releaseVolumes(ctx, p)
	if err == nil && len(volumes.waiting) > 0 {
		none.Waiting = "waiting until Cinder has deleted what is left of the server: " + strings.Join(volumes.waiting, "; ")
	}
	if err != nil || len(volumes.waiting) > 0 || len(p.ResourcesOf(i.machine.UID).InDoubt) > 0 {
		return none, err
	}
	i.cloud.machines.forget(i.machine.UID)
	return cloud.Released{Done: true, Left: append(left, volumes.left...)}, nil
}

// releaseAddresses deletes the floating IP with the Machine's owner tag. It also deletes the floating IP that an annotation names,
// if that floating IP was the Machine's. left names a floating IP that it did not delete.
func (i *instance) releaseAddresses(ctx context.Context, p *inventory.Project) (left []string, err error) {
	if ip := p.ResourcesOf(i.machine.UID).FloatingIP; ip != nil {
		if err := i.deleteIP(ctx, *ip); err != nil {
			return nil, err
		}
		p.With(func(s *state.Project) { s.Addresses.Forget(i.tag(cloud.ResourceFloatingIP, 0), ip.ID) })
	}
	if i.machine.FloatingIPID == "" {
		return nil, nil
	}
	if !provider.IsUUID(i.machine.FloatingIPID) {
		return []string{fmt.Sprintf("annotation %s: %.64q is not the ID of a floating IP", v1alpha1.FinalizerFloatingIP, i.machine.FloatingIPID)}, nil
	}
	doing := fmt.Sprintf("looking up floating IP %s of server %s", i.machine.FloatingIPID, i.machine.ServerName)
	ip, err := lookUp[state.FloatingIP](ctx, i, client.Network, doing, "floatingip", i.machine.FloatingIPID)
	if err != nil || ip == nil {
		return nil, err
	}
	var own bool
	p.With(func(s *state.Project) {
		own = s.OwnsFloatingIP(&i.machine, ip, i.trusted && i.recorded.FloatingIPID == ip.ID)
	})
	if !own {
		return []string{fmt.Sprintf("floating IP %s (%s) exists and was not deleted: the annotation %s names it, but nothing in the cloud shows that it was this Machine's", ip.ID, ip.Address, v1alpha1.FinalizerFloatingIP)}, nil
	}
	return nil, i.deleteIP(ctx, *ip)
}

func (i *instance) deleteIP(ctx context.Context, ip state.FloatingIP) error {
	_, err := i.delete(ctx, client.Network, fmt.Sprintf("deleting floating IP %s of server %s", ip.Address, i.machine.ServerName), "floatingips", ip.ID)
	return err
}

// deletePort deletes a port in the cloud. It returns nil when the port does not exist.
func (i *instance) deletePort(ctx context.Context, n int, port state.Port) error {
	_, err := i.delete(ctx, client.Network, fmt.Sprintf("deleting port %d of server %s", n, i.machine.ServerName), "ports", port.ID)
	return err
}

// delete asks a service to delete a resource, and reports whether it is already gone. path is where the resource is below the service's
// endpoint.
func (i *instance) delete(ctx context.Context, s client.Service, doing string, path ...string) (gone bool, err error) {
	err = i.do(ctx, client.Call{Service: s, Doing: doing}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Delete(ctx, api.ServiceURL(path...), nil)
		return err
	})
	return fault.Is(err, fault.NotFound), fault.IgnoreNotFound(err)
}
