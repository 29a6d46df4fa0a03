// Package indexes defines the fields by which the Machine controller looks up Machines and Nodes in its informer caches. It
// makes no decisions.
package indexes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/machine/record"
)

// The indexed fields.
const (
	// NodeServer finds Nodes by the server ID in their provider ID. NodeOwner finds Nodes by the UID of their owner.
	NodeServer = "drover.machine.node-server"
	NodeOwner  = "drover.machine.node-owner"
	// MachineServer finds Machines by the server ID in their provider ID. MachineName finds Machines by the name of their
	// server.
	MachineServer = "drover.machine.server"
	MachineName   = "drover.machine.server-name"
	// MachineUID finds Machines by their UID. MachineSet finds Machines by the UID of the MachineSet that controls them.
	MachineUID = "drover.machine.uid"
	MachineSet = "drover.machine.set"
)

// Index is one indexed field of a kind.
type Index struct {
	Object client.Object
	Field  string
	key    func(client.Object) string
}

// All returns the indexes that the caches must have. provider parses provider IDs.
func All(provider cloud.Provider) []Index {
	return []Index{
		{&corev1.Node{}, NodeServer, nodeServer(provider)},
		{&corev1.Node{}, NodeOwner, func(o client.Object) string { return v1alpha1.NodeOwner(o.GetLabels(), o.GetAnnotations()) }},
		{&storagev1.VolumeAttachment{}, drain.IndexNode, drain.AttachmentNode},
		{&storagev1.VolumeAttachment{}, drain.IndexVolume, drain.AttachmentVolume},
		{&v1alpha1.Machine{}, MachineServer, machineServer(provider)},
		{&v1alpha1.Machine{}, MachineName, machineName},
		{&v1alpha1.Machine{}, MachineUID, func(o client.Object) string { return string(o.GetUID()) }},
		{&v1alpha1.Machine{}, MachineSet, machineSet},
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
			return string(record.ServerID(provider, m))
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
