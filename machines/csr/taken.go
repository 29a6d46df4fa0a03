package csr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// taken returns the requested addresses that belong to a Node that registered before the requester's Node, each with the name of the
// older Node. The author of a Machine may run a cloud that lists any address for a server, so the cloud's list alone does not move an
// address from one node to another. A kubelet may report any address, so the address of a Machine's Node counts only when the cloud has
// it for the server of that Machine.
func (r *Reconciler) taken(ctx context.Context, request *Request, requester string, own *Node) (map[netip.Addr]string, error) {
	var list corev1.NodeList
	if err := r.Target.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	taken := map[netip.Addr]string{}
	for i := range list.Items {
		n := &list.Items[i]
		if n.Name == requester || own != nil && !n.CreationTimestamp.Time.Before(own.Created) {
			continue
		}
		for _, ip := range request.IPs {
			address, ok := addressOf(ip)
			if !ok || !hasAddress(&cloud.Server{Addresses: n.Status.Addresses}, address) {
				continue
			}
			confirmed, err := r.confirms(ctx, n.Name, address)
			if err != nil {
				return nil, err
			}
			if confirmed {
				taken[address] = n.Name
			}
		}
	}
	return taken, nil
}

// confirms reports whether drover trusts an address that a Node reports. It does when no Machine has a server of the Node's name, or when
// the cloud has the address for such a server.
func (r *Reconciler) confirms(ctx context.Context, node string, address netip.Addr) (bool, error) {
	machines, err := r.named(ctx, node)
	if err != nil || len(machines) == 0 {
		return err == nil, err
	}
	return slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool {
		server, err := r.Servers.ServerOf(ctx, &m)
		return err == nil && server != nil && hasAddress(server, address)
	}), nil
}
