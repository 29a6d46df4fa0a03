package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineSet keeps a number of equal Machines.
//
// +kubebuilder:object:root=true
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MachineSetSpec `json:"spec,omitempty"`
	// +optional
	Status MachineSetStatus `json:"status,omitempty"`
}

// DeletePolicy ranks the Machines of a set for removal, after those that are marked, failed or not ready.
type DeletePolicy string

// The delete policies.
const (
	// DeleteRandom treats healthy Machines as equal; ties are broken by name.
	DeleteRandom DeletePolicy = "Random"
	// DeleteNewest removes the youngest first.
	DeleteNewest DeletePolicy = "Newest"
	// DeleteOldest removes the oldest first.
	DeleteOldest DeletePolicy = "Oldest"
	// DeleteDefault is SysEleven's name for newest first.
	DeleteDefault DeletePolicy = "Default"
)

// MachineSetSpec is what a set should be.
type MachineSetSpec struct {
	// Replicas is the number of living Machines wanted. The schema gives no default: nil means that the last known
	// size stays (1 for a new set).
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// MinReadySeconds is how long a node must have been Ready to count as available. Default: 0.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// DeletePolicy is Random, Newest, Oldest or Default. Empty means Random.
	// +optional
	DeletePolicy DeletePolicy `json:"deletePolicy,omitempty"`
	// Selector finds the set's Machines. It must match the template's labels.
	Selector metav1.LabelSelector `json:"selector"`
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty"`
	// Removals are Machines that go first. For a set of a deployment they are its share of the deployment's list, in
	// the same write that changes Replicas.
	// +optional
	// +listType=map
	// +listMapKey=name
	Removals []Removal `json:"removals,omitempty"`
}

// MachineSetStatus is what is known of a set. A Machine that is deleting or listed in spec.removals is counted nowhere.
type MachineSetStatus struct {
	// Replicas is the number of living Machines.
	Replicas int32 `json:"replicas"`
	// +optional
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas,omitempty"`
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	ErrorReason *string `json:"errorReason,omitempty"`
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
	// Selector is the label selector in string form, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true

// MachineSetList is a list of MachineSets.
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineSet `json:"items"`
}
