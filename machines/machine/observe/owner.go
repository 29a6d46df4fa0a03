package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/scope"
)

// ownedByOther returns why a Node without the Machine's owner label belongs to another Machine: either the Node's owner label
// names an existing Machine, or an older Machine matches the Node too. It returns an empty string when the Node belongs to no
// other Machine.
func (o *Observer) ownedByOther(ctx context.Context, m *v1alpha1.Machine, n *corev1.Node) (string, error) {
	owner := v1alpha1.NodeOwner(n.Labels, n.Annotations)
	exists, err := o.machineExists(ctx, m, owner)
	switch {
	case err != nil:
		return "", err
	case exists:
		return fmt.Sprintf("node %s belongs to another Machine: its %s is that Machine's UID %s", n.Name, v1alpha1.AnnotationOwnedBy, owner), nil
	}
	return o.contested(ctx, m, n)
}

// machineExists reports whether a Machine other than m has the given UID; false when uid is empty.
func (o *Observer) machineExists(ctx context.Context, m *v1alpha1.Machine, uid string) (bool, error) {
	if uid == "" || uid == string(m.UID) {
		return false, nil
	}
	var list v1alpha1.MachineList
	if err := o.Control.List(ctx, &list, client.MatchingFields{scope.IndexMachineUID: uid}); err != nil {
		return false, fmt.Errorf("looking for the Machine with UID %s: %w", uid, err)
	}
	return len(list.Items) > 0, nil
}

// contested returns a message that names the other Machine to which a Node without an owner label belongs; an empty string
// when there is no such Machine. Two Machines can match the same Node: both have servers with the Node's name, or one of them
// uses a cloud that lists servers of other owners. In that case the Node belongs to the older Machine, because a second
// Machine for the same Node can only be created after the Node's own Machine.
func (o *Observer) contested(ctx context.Context, m *v1alpha1.Machine, n *corev1.Node) (string, error) {
	index := client.MatchingFields{scope.IndexMachineName: n.Name}
	if id := o.Cloud.ServerID(n.Spec.ProviderID); id != "" {
		index = client.MatchingFields{scope.IndexMachineServer: string(id)}
	}
	var list v1alpha1.MachineList
	if err := o.Control.List(ctx, &list, index); err != nil {
		return "", fmt.Errorf("listing the Machines that node %s may belong to: %w", n.Name, err)
	}
	for i := range list.Items {
		rival := &list.Items[i]
		// A Node without an owner label never belongs to a Machine whose server has another name.
		if rival.UID != m.UID && rival.ServerName() == n.Name && isOlder(rival, m) && o.mayHave(ctx, rival, n) {
			return fmt.Sprintf("node %s belongs to the older Machine %s/%s, which has the same server or a server of the same name", n.Name, rival.Namespace, rival.Name), nil
		}
	}
	return "", nil
}

// isOlder reports whether a was created before b. Of two Machines created in the same second, the one with the smaller UID
// counts as older.
func isOlder(a, b *v1alpha1.Machine) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// mayHave reports whether the Node may run on the Machine's server. It returns false when spec.providerID names no server.
// Otherwise it compares the Node with the server that the cloud shows for the Machine, and returns true while the cloud's
// servers are not known.
func (o *Observer) mayHave(ctx context.Context, m *v1alpha1.Machine, n *corev1.Node) bool {
	if cloud.RecordedServer(o.Cloud, m) == "" {
		return false
	}
	instance, err := o.Cloud.Instance(ctx, m)
	if err != nil {
		return true
	}
	shown, err := instance.Observe(ctx)
	if err != nil || !shown.Synced {
		return true
	}
	id := o.Cloud.ServerID(n.Spec.ProviderID)
	return shown.Server != nil && (id == "" || id == shown.Server.Key)
}
