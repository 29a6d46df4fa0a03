package scope

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
)

// The indexed fields.
const (
	// IndexNodeServer finds Nodes by the server ID in their provider ID. IndexNodeOwner finds Nodes by the UID of their owner.
	IndexNodeServer = "drover.machine.node-server"
	IndexNodeOwner  = "drover.machine.node-owner"
	// IndexNodeState finds the Nodes that accept pods (NodeOpen), and those that do not, but may again, because somebody other than
	// drover has cordoned them (NodeClosed).
	IndexNodeState = "drover.machine.node-state"
	NodeOpen       = "open"
	NodeClosed     = "closed"
	// IndexMachineComing finds the Machines that are about to become Nodes; its only value is Coming.
	IndexMachineComing = "drover.machine.coming"
	Coming             = "true"
	// IndexMachineServer finds Machines by the server ID in their provider ID. IndexMachineName finds Machines by the name of their
	// server.
	IndexMachineServer = "drover.machine.server"
	IndexMachineName   = "drover.machine.server-name"
	// IndexMachineUID finds Machines by their UID. IndexMachineSet finds Machines by the UID of the MachineSet that controls them.
	IndexMachineUID = "drover.machine.uid"
	IndexMachineSet = "drover.machine.set"
)

// Index is one indexed field of a kind.
type Index struct {
	Object client.Object
	Field  string
	// Keys returns the values of the indexed field of an object; none when the field is empty.
	Keys client.IndexerFunc
}

// Indexes returns the indexes that the caches must have. provider parses provider IDs.
func Indexes(provider cloud.Provider) []Index {
	return []Index{
		{&corev1.Node{}, IndexNodeServer, keyOf(func(n *corev1.Node) string { return string(provider.ServerID(n.Spec.ProviderID)) })},
		{&corev1.Node{}, IndexNodeOwner, keyOf(func(n *corev1.Node) string { return v1alpha1.NodeOwner(n.Labels, n.Annotations) })},
		{&corev1.Node{}, IndexNodeState, keyOf(nodeState)},
		{&storagev1.VolumeAttachment{}, drain.IndexNode, keyOf(drain.AttachmentNode)},
		{&storagev1.VolumeAttachment{}, drain.IndexVolume, keyOf(drain.AttachmentVolume)},
		{&v1alpha1.Machine{}, IndexMachineServer, keyOf(func(m *v1alpha1.Machine) string { return string(cloud.RecordedServer(provider, m)) })},
		{&v1alpha1.Machine{}, IndexMachineName, keyOf((*v1alpha1.Machine).ServerName)},
		{&v1alpha1.Machine{}, IndexMachineUID, keyOf(func(m *v1alpha1.Machine) string { return string(m.UID) })},
		{&v1alpha1.Machine{}, IndexMachineSet, keyOf(machineSet)},
		{&v1alpha1.Machine{}, IndexMachineComing, keyOf(coming)},
	}
}

// keyOf returns the function that indexes objects of type T by a key; an object with an empty key is not indexed.
func keyOf[T client.Object](key func(T) string) client.IndexerFunc {
	return func(o client.Object) []string {
		if t, ok := o.(T); ok && key(t) != "" {
			return []string{key(t)}
		}
		return nil
	}
}

// machineSet returns the UID of a Machine's set.
func machineSet(m *v1alpha1.Machine) string {
	if ref := metav1.GetControllerOf(m); ref != nil {
		return string(ref.UID)
	}
	return ""
}

func nodeState(n *corev1.Node) string {
	switch {
	case !n.Spec.Unschedulable:
		return NodeOpen
	case !drain.Begun(n):
		return NodeClosed
	}
	return ""
}

func coming(m *v1alpha1.Machine) string {
	if m.Status.NodeRef == nil && m.DeletionTimestamp == nil {
		return Coming
	}
	return ""
}
