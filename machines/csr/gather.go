package csr

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
)

// gather collects the facts with which a request is compared, and the Machines that want the request's node name.
func (r *Reconciler) gather(ctx context.Context, request *Request) (*Facts, Contenders, error) {
	f := &Facts{}
	var asked *v1alpha1.Machine
	server, isNode := strings.CutPrefix(request.Username, nodeUserPrefix)
	if id, ok := strings.CutPrefix(request.Username, bootstrap.UserPrefix); ok {
		var err error
		if asked, err = r.byToken(ctx, id, request.Subject.CommonName, f); err != nil || asked == nil {
			return f, Contenders{}, err
		}
		server = asked.ServerName()
	} else if !isNode {
		return f, Contenders{}, nil
	}
	machines, err := r.named(ctx, server)
	if err != nil {
		return f, Contenders{}, err
	}
	isAsked := func(m *Machine) bool { return m.UID == asked.UID }
	if asked != nil && !slices.ContainsFunc(machines, isAsked) {
		machines = append(machines, r.describe(ctx, asked))
	}
	if len(machines) == 0 {
		return f, Contenders{}, nil
	}
	if f.Node, err = r.node(ctx, server); err != nil {
		return f, Contenders{}, err
	}
	claims := Choose(machines, f.Node)
	if f.Machine = claims.concerned(machines); asked != nil {
		f.Machine = machines[slices.IndexFunc(machines, isAsked)]
	}
	f.nameServer()
	f.Contested = claims.contested(f.Machine)
	if request.SignerName == certificatesv1.KubeletServingSignerName {
		f.Reserved, err = r.reserved(ctx, f.Machine.Namespace)
		if err == nil && f.Machine.Server != nil {
			f.Taken, err = r.taken(ctx, contestable(request, f.Machine), server, f.Node)
		}
	}
	return f, claims, err
}

// concerned returns the Machine that a request without a token concerns: the one that may use the node name. While no Machine may use the
// name, it is a joined Machine that wants the name, or else the first of the machines.
func (c Contenders) concerned(machines []*Machine) *Machine {
	if c.Holder != nil {
		return c.Holder
	}
	i := slices.IndexFunc(machines, func(m *Machine) bool { return m.joined() && m.DeletionTimestamp == nil && !m.paused() })
	return machines[max(i, 0)]
}

// nameServer sets the server of a Node whose provider ID machine-controller has made of the Machine's UID, so that it names no server. The
// Machine's status, which only drover and machine-controller write, names the Node.
func (f *Facts) nameServer() {
	if n, ref := f.Node, f.Machine.Status.NodeRef; n != nil && ref != nil && ref.UID != "" && ref.UID == n.UID {
		if uid, made := v1alpha1.MachineControllerUID(n.Spec.ProviderID); made && uid == f.Machine.UID {
			n.Server = f.Machine.serverID()
		}
	}
}

// byToken returns the Machine for which a bootstrap token was made. It returns nil when that Machine does not exist, even if a new Machine
// has its name. When all Machines of a deployment share the token, it returns the Machine of that deployment whose server the request
// names. It adds the token's group and expiry to the facts.
func (r *Reconciler) byToken(ctx context.Context, id, commonName string, f *Facts) (*v1alpha1.Machine, error) {
	holder, err := bootstrap.HolderOf(ctx, r.Target.GetAPIReader(), id)
	if err != nil {
		return nil, err
	}
	f.TokenExpired = !holder.Expiry.IsZero() && !r.Clock.Now().Before(holder.Expiry)
	if !holder.Shared() {
		f.Group = bootstrap.Group
		if holder.UID == "" {
			return nil, nil
		}
		var m v1alpha1.Machine
		if err := r.Control.GetClient().Get(ctx, holder.Machine, &m); err != nil || m.UID != holder.UID {
			return nil, client.IgnoreNotFound(err)
		}
		return &m, nil
	}
	f.Group = bootstrap.GroupOSM
	node, ok := strings.CutPrefix(commonName, nodeUserPrefix)
	if !ok {
		return nil, nil
	}
	machines, err := r.named(ctx, node)
	if err != nil {
		return nil, err
	}
	for _, m := range machines {
		owners, err := bootstrap.OwnersOf(ctx, r.Control.GetClient(), m.Machine)
		if err != nil {
			return nil, err
		}
		if holder.Serves(owners.Deployment) {
			return m.Machine, nil
		}
	}
	return nil, nil
}

// named returns the Machines whose server has that name.
func (r *Reconciler) named(ctx context.Context, server string) ([]*Machine, error) {
	var list v1alpha1.MachineList
	if err := r.Control.GetClient().List(ctx, &list, client.MatchingFields{indexNode: server}); err != nil {
		return nil, fmt.Errorf("listing the Machines of node %s: %w", server, err)
	}
	machines := make([]*Machine, len(list.Items))
	for i := range list.Items {
		machines[i] = r.describe(ctx, &list.Items[i])
	}
	return machines, nil
}

// describe adds what the cloud's inventory has for a Machine.
func (r *Reconciler) describe(ctx context.Context, m *v1alpha1.Machine) *Machine {
	out := &Machine{Machine: m}
	if m.Spec.ProviderID != nil {
		out.Recorded = r.Servers.ServerID(*m.Spec.ProviderID)
	}
	var err error
	if out.Server, err = r.Servers.ServerOf(ctx, m); err != nil {
		out.Server, out.Unknown = nil, err.Error()
	}
	return out
}

// node returns the Node of that name; nil when it does not exist. A provider ID of a form that the cloud does not have stands for a server
// of no Machine, because no server would mean that the Node has no provider ID.
func (r *Reconciler) node(ctx context.Context, name string) (*Node, error) {
	var n Node
	if err := r.Target.GetClient().Get(ctx, types.NamespacedName{Name: name}, &n.Node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	} else if err != nil {
		return nil, nil
	}
	if _, made := v1alpha1.MachineControllerUID(n.Spec.ProviderID); !made {
		n.Server = cmp.Or(r.Servers.ServerID(n.Spec.ProviderID), cloud.ServerID(n.Spec.ProviderID))
	}
	return &n, nil
}

// contestable returns the names and addresses in a request that are compared with those of other Nodes. The Machine's own name is not one of
// them. A further name always is: the author of a Machine can set the metadata of its server. The addresses of a server in the configured
// cloud are not: drover trusts this cloud to list only addresses that belong to a server, and does not trust the addresses that the kubelet
// of an older Node reports.
func contestable(r *Request, m *Machine) []string {
	return slices.DeleteFunc(r.hosts(), func(host string) bool {
		return host == m.ServerName() || !isName(host) && m.Server.Configured
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
	var list corev1.NodeList
	if err := r.Target.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for _, host := range hosts {
		machines, err := r.named(ctx, host)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(machines, func(m *Machine) bool { return m.Server != nil }) {
			taken[host] = host
		}
		for i := range list.Items {
			n := &list.Items[i]
			older := own == nil || n.CreationTimestamp.Before(&own.CreationTimestamp)
			switch {
			case n.Name == requester:
			case n.Name == host:
				taken[host] = n.Name
			case older && hasHost(n.Status.Addresses, host):
				if confirmed, err := r.confirmed(ctx, n.Name, host); err != nil {
					return nil, err
				} else if confirmed {
					taken[host] = n.Name
				}
			}
		}
	}
	return taken, nil
}

// confirmed reports whether a host that a Node reports belongs to it: the cloud has it for the server of the Node's Machine, or the Node
// belongs to no Machine.
func (r *Reconciler) confirmed(ctx context.Context, node, host string) (bool, error) {
	machines, err := r.named(ctx, node)
	has := func(m *Machine) bool { return m.Server != nil && hasHost(m.Server.Addresses, host) }
	return len(machines) == 0 || slices.ContainsFunc(machines, has), err
}
