package csr

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	server, isNode := strings.CutPrefix(request.User, nodeUserPrefix)
	if id, ok := strings.CutPrefix(request.User, bootstrap.UserPrefix); ok {
		var err error
		if asked, err = r.byToken(ctx, id, request.CommonName, f); err != nil || asked == nil {
			return f, Contenders{}, err
		}
		server = asked.ServerName()
	} else if !isNode {
		return f, Contenders{}, nil
	}
	named, err := r.named(ctx, server)
	if err != nil {
		return f, Contenders{}, err
	}
	if asked != nil && !slices.ContainsFunc(named, func(m v1alpha1.Machine) bool { return m.UID == asked.UID }) {
		named = append(named, *asked)
	}
	if len(named) == 0 {
		return f, Contenders{}, nil
	}
	if f.Node, err = r.node(ctx, server); err != nil {
		return f, Contenders{}, err
	}
	machines := make([]*Machine, len(named))
	for i := range named {
		machines[i] = r.describe(ctx, &named[i])
	}
	claims := Choose(machines, f.Node)
	f.Machine = subject(machines, claims, asked)
	f.nameServer()
	f.Contested = claims.contested(f.Machine)
	if request.Signer == certificatesv1.KubeletServingSignerName {
		f.Reserved, err = r.network.reserved(ctx, f.Machine.Key.Namespace)
		if err == nil && f.Machine.Server != nil {
			f.Taken, err = r.taken(ctx, contestable(request, f.Machine), server, f.Node)
		}
	}
	return f, claims, err
}

// nameServer sets the server of a Node whose provider ID has the Machine's UID and names no server. The Machine's status, which only drover
// and machine-controller write, names the Node.
func (f *Facts) nameServer() {
	if n, m := f.Node, f.Machine; n != nil && m.node != "" && n.ofMachine == m.UID && n.uid == m.node {
		n.Server = m.serverID()
	}
}

// subject returns the Machine that a request concerns: the Machine of the request's token, or else the Machine that may use the node name.
// While no Machine may use the name, it returns a joined Machine that wants the name.
func subject(machines []*Machine, c Contenders, asked *v1alpha1.Machine) *Machine {
	if asked == nil && c.Holder != nil {
		return c.Holder
	}
	i := slices.IndexFunc(machines, func(m *Machine) bool {
		if asked != nil {
			return m.UID == asked.UID
		}
		return m.Joined && !m.Deleting && !m.Paused
	})
	return machines[max(i, 0)]
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
	if holder.Shared() {
		f.Group = bootstrap.GroupOSM
		return r.ofDeployment(ctx, holder, commonName)
	}
	f.Group = bootstrap.Group
	if holder.UID == "" {
		return nil, nil
	}
	var m v1alpha1.Machine
	if err := r.Control.GetClient().Get(ctx, holder.Machine, &m); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if m.UID != holder.UID {
		return nil, nil
	}
	return &m, nil
}

// ofDeployment returns the Machine of the token's deployment whose server has the name in the request; nil when there is no such
// Machine.
func (r *Reconciler) ofDeployment(ctx context.Context, holder bootstrap.Holder, commonName string) (*v1alpha1.Machine, error) {
	node, ok := strings.CutPrefix(commonName, nodeUserPrefix)
	if !ok {
		return nil, nil
	}
	machines, err := r.named(ctx, node)
	if err != nil {
		return nil, err
	}
	for i := range machines {
		owners, err := bootstrap.OwnersOf(ctx, r.Control.GetClient(), &machines[i])
		if err != nil {
			return nil, err
		}
		if holder.Serves(owners.Deployment) {
			return &machines[i], nil
		}
	}
	return nil, nil
}

// named returns the Machines whose server has that name.
func (r *Reconciler) named(ctx context.Context, server string) ([]v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	if err := r.Control.GetClient().List(ctx, &list, client.MatchingFields{indexNode: server}); err != nil {
		return nil, fmt.Errorf("listing the Machines of node %s: %w", server, err)
	}
	return list.Items, nil
}

// node returns the Node of that name; nil when it does not exist.
func (r *Reconciler) node(ctx context.Context, name string) (*Node, error) {
	var node corev1.Node
	err := r.Target.GetClient().Get(ctx, types.NamespacedName{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	out := &Node{Created: node.CreationTimestamp.Time, uid: node.UID}
	var made bool
	if out.ofMachine, made = v1alpha1.MachineControllerUID(node.Spec.ProviderID); !made {
		out.Server = r.serverOf(node.Spec.ProviderID)
	}
	return out, nil
}

// serverOf returns the server ID in the provider ID of a Node. It returns a provider ID of another form unchanged, because an empty result
// would mean that the Node has no provider ID. The unchanged ID equals the server ID of no Machine.
func (r *Reconciler) serverOf(providerID string) cloud.ServerID {
	return cmp.Or(r.Servers.ServerID(providerID), cloud.ServerID(providerID))
}

// describe returns what a Machine's object and the cloud's inventory contain about the Machine.
func (r *Reconciler) describe(ctx context.Context, m *v1alpha1.Machine) *Machine {
	out := &Machine{
		Key: client.ObjectKeyFromObject(m), UID: m.UID, ServerName: m.ServerName(), Created: m.CreationTimestamp.Time,
		Deleting: m.DeletionTimestamp != nil, Paused: v1alpha1.Paused(m.Annotations),
		Joined: m.Status.NodeRef != nil && m.Status.NodeRef.Name == m.ServerName(),
	}
	if ref := m.Status.NodeRef; ref != nil {
		out.node = ref.UID
	}
	if m.Spec.ProviderID != nil {
		out.Recorded = r.Servers.ServerID(*m.Spec.ProviderID)
	}
	var err error
	if out.Server, err = r.Servers.ServerOf(ctx, m); err != nil {
		out.Server, out.Unknown = nil, err.Error()
	}
	return out
}
