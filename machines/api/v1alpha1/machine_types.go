package v1alpha1

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Machine is one server that becomes one node.
//
// It has no status subresource: machine-controller writes the status with an update of the whole object, and a subresource would drop those
// writes without an error (docs/decisions/0001). A client that writes a Machine's status patches the Machine itself. A server-side apply
// must contain the UID, or it would create a deleted Machine again.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ma,categories=drover
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, legacy API"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Server",type=string,JSONPath=`.spec.providerID`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.status.providerStatus.zone`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses[0].address`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.spec.versions.kubelet`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.errorReason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.providerSpec.value.cloudProvider`,priority=1
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.spec.providerSpec.value.operatingSystem`,priority=1
// +kubebuilder:printcolumn:name="Wanted-Zone",type=string,JSONPath=`.spec.providerSpec.value.cloudProviderSpec.availabilityZone`,priority=1
// +kubebuilder:printcolumn:name="Flavor",type=string,JSONPath=`.spec.providerSpec.value.cloudProviderSpec.flavor`,priority=1
// +kubebuilder:printcolumn:name="Deleted",type=date,JSONPath=`.metadata.deletionTimestamp`,priority=1
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MachineSpec `json:"spec,omitempty"`
	// +optional
	Status MachineStatus `json:"status,omitempty"`
}

// MachineSpec describes a machine. It is immutable, except for Metadata.Name, which drover fills with the Machine's name, and
// ProviderID, which drover sets once.
//
// +kubebuilder:validation:XValidation:rule="!has(self.providerConfig) || !(has(self.providerSpec) && (has(self.providerSpec.value) || has(self.providerSpec.valueFrom))) || (oldSelf.hasValue() && has(oldSelf.value().providerConfig) && has(oldSelf.value().providerSpec) && (has(oldSelf.value().providerSpec.value) || has(oldSelf.value().providerSpec.valueFrom)))",message="providerSpec and its old spelling providerConfig are both set: keep providerSpec and remove providerConfig",optionalOldSelf=true
type MachineSpec struct {
	// Metadata holds the labels and annotations of the Node. Name is the name of the server and the Node; default: the Machine's name.
	// +optional
	Metadata EmbeddedMetadata `json:"metadata,omitempty,omitzero"`
	// Taints are on the Node from its registration.
	// +optional
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.key != '' && t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="each taint needs a key, and NoSchedule, PreferNoSchedule or NoExecute as effect"
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`
	// ProviderSpec describes the server to create in the cloud.
	// +optional
	ProviderSpec ProviderSpec `json:"providerSpec,omitempty,omitzero"`
	// ProviderConfig is the old name of ProviderSpec. drover reads it and does not change it. Deprecated; setting both fields is an
	// error.
	// +optional
	ProviderConfig *ProviderSpec `json:"providerConfig,omitempty"`
	// Versions holds the version of the kubelet to run.
	// +optional
	Versions MachineVersionInfo `json:"versions,omitempty,omitzero"`
	// ConfigSource is deprecated and has no effect.
	// +optional
	ConfigSource *corev1.NodeConfigSource `json:"configSource,omitempty"`
	// ProviderID is the server's identity, as in spec.providerID of the Node. drover sets it once.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ProviderID *string `json:"providerID,omitempty"`

	// Unknown are the paths of the fields that the object has and this type does not. They have no effect, and drover never writes them.
	Unknown []string `json:"-"`
}

// ErrBothSpellings is returned by [MachineSpec.Provider] when the provider spec is set under both of its names.
var ErrBothSpellings = errors.New("providerSpec and its old spelling providerConfig are both set: keep providerSpec and remove providerConfig")

// Provider returns the provider spec under either of its names, ProviderSpec or the older ProviderConfig. It returns ErrBothSpellings when
// both are set, and an empty spec when neither is.
func (s *MachineSpec) Provider() (ProviderSpec, error) {
	switch {
	case s.ProviderConfig == nil:
		return s.ProviderSpec, nil
	case s.ProviderSpec.Value != nil || s.ProviderSpec.ValueFrom != nil:
		return ProviderSpec{}, ErrBothSpellings
	}
	return *s.ProviderConfig, nil
}

// MachinePhase summarises the state of a Machine.
type MachinePhase string

// The phases of a Machine.
const (
	// PhasePending means that there is no server yet.
	PhasePending MachinePhase = "Pending"
	// PhaseProvisioning means that the server exists, or that nothing proves that it is gone, and that its Node is not registered.
	PhaseProvisioning MachinePhase = "Provisioning"
	// PhaseJoined means that the Node is registered, and that its first start is not complete.
	PhaseJoined MachinePhase = "Joined"
	// PhaseRunning means that the first start of the Node was complete. The Node may have become not Ready since then.
	PhaseRunning MachinePhase = "Running"
	// PhaseDeleting means that the Machine is being deleted.
	PhaseDeleting MachinePhase = "Deleting"
	// PhaseFailed means that the Machine has an error that waiting alone does not resolve.
	PhaseFailed MachinePhase = "Failed"
)

// MachineStatus is the observed state of a Machine.
type MachineStatus struct {
	// NodeRef names the Node, once it has registered.
	// +optional
	NodeRef *corev1.ObjectReference `json:"nodeRef,omitempty"`
	// LastUpdated is when an older writer last changed the status.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// Versions holds the kubelet version that the Node reports.
	// +optional
	Versions *MachineVersionInfo `json:"versions,omitempty"`
	// ErrorReason is the stable code of what went wrong (package machines/fault); empty when nothing is wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ErrorReason *string `json:"errorReason,omitempty"`
	// ErrorMessage describes what went wrong and what to do. It includes the cloud's own text when the cloud reported the error. It has at
	// most 4096 bytes; older writers wrote more.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	ErrorMessage *string `json:"errorMessage,omitempty"`
	// ProviderStatus is the provider's own record (server, ports, floating IP, volume).
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// Addresses are the addresses of the server, each with its type.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`
	// Conditions are the conditions of the Machine, in the order in which they were added. Each type occurs once.
	// +optional
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	Conditions []MachineCondition `json:"conditions,omitempty"`
	// LastOperation is the last operation on the server.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// Phase is Pending, Provisioning, Joined, Running, Deleting or Failed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Phase *MachinePhase `json:"phase,omitempty"`
	// Backoffs are the failures, such as lack of quota or capacity, because of which the Machine waits. The field is used only when no
	// deployment or set records these failures.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=class
	// +listMapKey=flavor
	// +listMapKey=zone
	Backoffs []GroupBackoff `json:"backoffs,omitempty"`
	// NodeMarks records which labels, annotations and taints of the template drover keeps on the Node. drover removes only what is recorded
	// here, and removes nothing while the record is missing. The record is not on the Node, because a kubelet can edit its own Node.
	// +optional
	NodeMarks *NodeMarks `json:"nodeMarks,omitempty"`
	// ServerStart records that drover has asked the cloud to start the Machine's server, which another client had shut down. While the
	// record is present, drover does not ask again. drover removes the record once the Node has been Ready for an hour.
	// +optional
	ServerStart *ServerStart `json:"serverStart,omitempty"`
}

// ServerStart records drover's request to start a server. drover makes only one such request.
type ServerStart struct {
	// Server is the ID of the server, as the cloud writes it.
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server"`
	// Time is the time right before the request to the cloud.
	Time metav1.Time `json:"time"`
	// Failure describes why the server does not run although a start was requested; empty while no failure is known. A failed start is not
	// repeated.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Failure string `json:"failure,omitempty"`
}

// NodeMarks holds the labels, annotations and taints that drover keeps on a Node. While the template changes, the record holds those of
// two templates, so its limits are larger than the limits of a template.
type NodeMarks struct {
	// Labels are the labels that drover keeps on the Node.
	// +optional
	// +kubebuilder:validation:MaxProperties=4096
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are the annotations that drover keeps on the Node.
	// +optional
	// +kubebuilder:validation:MaxProperties=4096
	Annotations map[string]string `json:"annotations,omitempty"`
	// Taints are the values of the taints that drover keeps on the Node, by key:effect.
	// +optional
	// +kubebuilder:validation:MaxProperties=4096
	Taints map[string]string `json:"taints,omitempty"`
	// Started is true once the first start of the Node in status.nodeRef is complete. drover removed the startup taint at that moment,
	// if the Node had one, and does not remove it again.
	// +optional
	Started bool `json:"started,omitempty"`
}

// MachineCondition has the form of a Node's condition. drover always writes the reason and the transition time; older writers did not.
type MachineCondition struct {
	// Type is the type of the condition.
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastHeartbeatTime is when drover read the server's console. Only the condition with the console output uses it. Older writers
	// store a null, which is kept.
	// +optional
	// +nullable
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// LastTransitionTime is when Status last changed.
	// +optional
	// +nullable
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word, for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// Message is a sentence, for users.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// LastOperation describes the last operation on a machine's server.
type LastOperation struct {
	// Description is a sentence, for users.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Description *string `json:"description,omitempty"`
	// LastUpdated is when the operation was done.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// State is Processing, Failed or Successful.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	State *string `json:"state,omitempty"`
	// Type is Create, Join, Update, Drain or Delete.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Type *string `json:"type,omitempty"`
}

// OperationFailed is the state of an operation that failed. OperationDelete is the type of the operation that deletes a Machine's
// resources.
const (
	OperationFailed = "Failed"
	OperationDelete = "Delete"
)

// ServerName returns the name of the server, the host and the Node: spec.metadata.name, else the Machine's own name.
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
