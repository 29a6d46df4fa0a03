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
	key    func(client.Object) string
}

// Indexes returns the indexes that the caches must have. provider parses provider IDs.
func Indexes(provider cloud.Provider) []Index {
	return []Index{
		{&corev1.Node{}, IndexNodeServer, nodeServer(provider)},
		{&corev1.Node{}, IndexNodeOwner, func(o client.Object) string { return v1alpha1.NodeOwner(o.GetLabels(), o.GetAnnotations()) }},
		{&storagev1.VolumeAttachment{}, drain.IndexNode, drain.AttachmentNode},
		{&storagev1.VolumeAttachment{}, drain.IndexVolume, drain.AttachmentVolume},
		{&v1alpha1.Machine{}, IndexMachineServer, machineServer(provider)},
		{&v1alpha1.Machine{}, IndexMachineName, machineName},
		{&v1alpha1.Machine{}, IndexMachineUID, func(o client.Object) string { return string(o.GetUID()) }},
		{&v1alpha1.Machine{}, IndexMachineSet, machineSet},
	}
}

// Keys returns the values of the indexed field of an object; none when the field is empty.
func (i Index) Keys(o client.Object) []string {
	if k := i.key(o); k != "" {
		return []string{k}
	}
	return nil
}

func nodeServer(provider cloud.Provider) func(client.Object) string {
	return func(o client.Object) string {
		if n, ok := o.(*corev1.Node); ok {
			return string(provider.ServerID(n.Spec.ProviderID))
		}
		return ""
	}
}

// machineSet returns the UID of a Machine's set.
func machineSet(o client.Object) string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return string(ref.UID)
	}
	return ""
}

func machineServer(provider cloud.Provider) func(client.Object) string {
	return func(o client.Object) string {
		if m, ok := o.(*v1alpha1.Machine); ok {
			return string(cloud.RecordedServer(provider, m))
		}
		return ""
	}
}

func machineName(o client.Object) string {
	if m, ok := o.(*v1alpha1.Machine); ok {
		return m.ServerName()
	}
	return ""
}
