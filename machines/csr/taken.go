package csr

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// contestable returns the names and addresses in a request that are compared with those of other Nodes. The Machine's own name is not one of
// them. A further name always is: the author of a Machine can set the metadata of its server. The addresses of a server in the configured
// cloud are not: drover trusts this cloud to list only addresses that belong to a server, and does not trust the addresses that the kubelet
// of an older Node reports.
func contestable(r *Request, m *Machine) []string {
	return slices.DeleteFunc(r.hosts(), func(host string) bool {
		return host == m.ServerName || !isName(host) && m.Server.Configured
	})
}

// taken returns those of the hosts that belong to another Node, each with the name of that Node. The author of a Machine may run a cloud
// that lists any address or name for a server, so the cloud's list alone does not move one from one node to another. The names of Nodes
// and of Machines' servers belong to them. Other names and addresses belong to a Node that reports them and that is older than the
// requester's Node. A kubelet may report any, so that of a Machine's Node counts only when the cloud has it for the server of that Machine.
func (r *Reconciler) taken(ctx context.Context, hosts []string, requester string, own *Node) (map[string]string, error) {
	taken := map[string]string{}
	if len(hosts) == 0 {
		return taken, nil
	}
	for _, host := range hosts {
		has, err := r.anyServer(ctx, host, func(*cloud.Server) bool { return true })
		if err != nil {
			return nil, err
		}
		if has {
			taken[host] = host
		}
	}
	var list corev1.NodeList
	if err := r.Target.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		older := own == nil || n.CreationTimestamp.Time.Before(own.Created)
		for _, host := range hosts {
			switch {
			case n.Name == requester:
			case n.Name == host:
				taken[host] = n.Name
			case older && hasHost(n.Status.Addresses, host):
				confirmed, err := r.confirms(ctx, n.Name, host)
				if err != nil {
					return nil, err
				}
				if confirmed {
					taken[host] = n.Name
				}
			}
		}
	}
	return taken, nil
}

// confirms reports whether drover trusts a name or address that a Node reports. It does when no Machine has a server of the Node's name, or
// when the cloud has it for such a server.
func (r *Reconciler) confirms(ctx context.Context, node, host string) (bool, error) {
	machines, err := r.named(ctx, node)
	if err != nil || len(machines) == 0 {
		return err == nil, err
	}
	return r.anyServer(ctx, node, func(s *cloud.Server) bool { return hasHost(s.Addresses, host) })
}

// anyServer reports whether a condition is true of a server, in the inventory, of a Machine whose server has the name.
func (r *Reconciler) anyServer(ctx context.Context, name string, is func(*cloud.Server) bool) (bool, error) {
	machines, err := r.named(ctx, name)
	return slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool {
		server, err := r.Servers.ServerOf(ctx, &m)
		return err == nil && server != nil && is(server)
	}), err
}
