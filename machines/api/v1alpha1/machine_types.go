package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Machine is one server that becomes one node.
//
// +kubebuilder:object:root=true
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MachineSpec `json:"spec,omitempty"`
	// +optional
	Status MachineStatus `json:"status,omitempty"`
}

// MachineSpec is what a machine should be. It does not change after creation, apart from Metadata.Name (filled with the
// Machine's name) and ProviderID (set once).
type MachineSpec struct {
	// Metadata goes to the Node: its labels and annotations. Name is the server's and the node's name; default: the
	// Machine's name.
	// +optional
	Metadata EmbeddedMetadata `json:"metadata,omitempty"`
	// Taints are on the Node from its registration.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// ProviderSpec says what the cloud is asked for.
	// +optional
	ProviderSpec ProviderSpec `json:"providerSpec,omitempty"`
	// Versions names the kubelet to run.
	// +optional
	Versions MachineVersionInfo `json:"versions,omitempty"`
	// ConfigSource is deprecated and has no effect.
	// +optional
	ConfigSource *corev1.NodeConfigSource `json:"configSource,omitempty"`
	// ProviderID is the server's identity as the Node bears it in spec.providerID. Set once, by drover.
	// +optional
	ProviderID *string `json:"providerID,omitempty"`
}

// MachinePhase sums up where a Machine is in its life.
type MachinePhase string

// The phases of a Machine.
const (
	// PhasePending: no server yet.
	PhasePending MachinePhase = "Pending"
	// PhaseProvisioning: the server exists, its node is not registered.
	PhaseProvisioning MachinePhase = "Provisioning"
	// PhaseJoined: the node is registered and was never Ready.
	PhaseJoined MachinePhase = "Joined"
	// PhaseRunning: the node is Ready, or was.
	PhaseRunning MachinePhase = "Running"
	// PhaseDeleting: the Machine is going.
	PhaseDeleting MachinePhase = "Deleting"
	// PhaseFailed: the Machine has an error that waiting alone will not cure.
	PhaseFailed MachinePhase = "Failed"
)

// MachineStatus is what is known of a machine.
type MachineStatus struct {
	// NodeRef names the Node, once it has registered.
	// +optional
	NodeRef *corev1.ObjectReference `json:"nodeRef,omitempty"`
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// Versions holds the kubelet version that the Node reports.
	// +optional
	Versions *MachineVersionInfo `json:"versions,omitempty"`
	// ErrorReason is the stable code of what went wrong (package machines/fault); empty when nothing is wrong.
	// +optional
	ErrorReason *string `json:"errorReason,omitempty"`
	// ErrorMessage is the cloud's own words, at most 256 bytes.
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
	// ProviderStatus is the provider's own record (server, ports, floating IP, volume).
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// Addresses of the server, with types.
	// +optional
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`
	// +optional
	Conditions []MachineCondition `json:"conditions,omitempty"`
	// LastOperation is the last thing that was done to the server.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// +optional
	Phase *MachinePhase `json:"phase,omitempty"`
}

// MachineCondition has the shape of a Node's condition; drover always writes reason and time, older writers did not.
type MachineCondition struct {
	Type   string                 `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// +optional
	// +nullable
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// +optional
	// +nullable
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// LastOperation describes the last thing done to a machine's server.
type LastOperation struct {
	// Description is a sentence for people.
	// +optional
	Description *string `json:"description,omitempty"`
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// State is Processing, Failed or Successful.
	// +optional
	State *string `json:"state,omitempty"`
	// Type is Create, Join, Update, Drain or Delete.
	// +optional
	Type *string `json:"type,omitempty"`
}

// ServerName is the name that the server, the host and the Node bear: spec.metadata.name, else the Machine's own name.
func (m *Machine) ServerName() string {
	if m.Spec.Metadata.Name != "" {
		return m.Spec.Metadata.Name
	}
	return m.Name
}

// +kubebuilder:object:root=true

// MachineList is a list of Machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}
