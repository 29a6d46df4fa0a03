package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineSet keeps a number of equal Machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,shortName=ms,categories=drover
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, legacy API"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.errorReason`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.metadata.ownerReferences[0].name`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.spec.template.spec.versions.kubelet`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.template.spec.providerSpec.value.cloudProvider`,priority=1
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.spec.template.spec.providerSpec.value.operatingSystem`,priority=1
// +kubebuilder:printcolumn:name="Flavor",type=string,JSONPath=`.spec.template.spec.providerSpec.value.cloudProviderSpec.flavor`,priority=1
// +kubebuilder:printcolumn:name="Frozen",type=string,JSONPath=`.status.conditions[?(@.type=="drover-project.github.io/Frozen")].status`,priority=1
// +kubebuilder:printcolumn:name="Deleted",type=date,JSONPath=`.metadata.deletionTimestamp`,priority=1
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MachineSetSpec `json:"spec,omitempty"`
	// +optional
	Status MachineSetStatus `json:"status,omitempty"`
}

// DeletePolicy is the order in which a set deletes its Machines. Machines that are annotated for deletion, failed or not ready always
// come first.
type DeletePolicy string

// The delete policies.
const (
	// DeleteRandom treats all healthy Machines as equal, and breaks ties by name.
	DeleteRandom DeletePolicy = "Random"
	// DeleteNewest removes the youngest Machines first.
	DeleteNewest DeletePolicy = "Newest"
	// DeleteOldest removes the oldest Machines first.
	DeleteOldest DeletePolicy = "Oldest"
	// DeleteDefault has the same effect as DeleteNewest. SysEleven uses this name.
	DeleteDefault DeletePolicy = "Default"
)

// MachineSetSpec is the desired state of a set.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || (oldSelf.hasValue() && !has(oldSelf.value().selector))",message="spec.selector must not be empty: it would take every Machine of the namespace",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchLabels) || (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k]) : size(self.selector.matchLabels) == 0) || (oldSelf.hasValue() && has(oldSelf.value().selector) && self.selector == oldSelf.value().selector && (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels) && self.template.metadata.labels == oldSelf.value().template.metadata.labels : !(has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels))))",message="spec.template.metadata.labels must hold every label of spec.selector.matchLabels",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchExpressions) || (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? self.selector.matchExpressions.all(e, e.operator == 'In' ? e.key in self.template.metadata.labels && has(e.values) && self.template.metadata.labels[e.key] in e.values : e.operator == 'Exists' ? e.key in self.template.metadata.labels : e.operator == 'NotIn' ? !(e.key in self.template.metadata.labels && has(e.values) && self.template.metadata.labels[e.key] in e.values) : e.operator == 'DoesNotExist' && !(e.key in self.template.metadata.labels)) : self.selector.matchExpressions.all(e, e.operator in ['NotIn', 'DoesNotExist'])) || (oldSelf.hasValue() && has(oldSelf.value().selector) && self.selector == oldSelf.value().selector && (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels) && self.template.metadata.labels == oldSelf.value().template.metadata.labels : !(has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels))))",message="spec.template.metadata.labels must match spec.selector.matchExpressions, whose operators are In, NotIn, Exists and DoesNotExist",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || ((!has(oldSelf.selector.matchLabels) || size(oldSelf.selector.matchLabels) == 0) && (!has(oldSelf.selector.matchExpressions) || size(oldSelf.selector.matchExpressions) == 0)) || (has(self.selector) && self.selector == oldSelf.selector)",message="spec.selector does not change: make a new object instead"
type MachineSetSpec struct {
	// Replicas is the desired number of living Machines. The schema has no default: nil means that the last known size stays (1 for a new
	// set). The maximum is 100000. An older version may have stored a larger size: drover then creates and deletes no Machine, and the
	// condition ReplicaFailure reports SizeTooLarge.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`
	// MinReadySeconds is how long a node must have been Ready to count as available. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// DeletePolicy is Random, Newest, Oldest or Default. Empty means Random.
	// +optional
	// +kubebuilder:validation:Enum="";Random;Newest;Oldest;Default
	DeletePolicy DeletePolicy `json:"deletePolicy,omitempty"`
	// Selector finds the set's Machines. It must match the template's labels, and is immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty: it would take every Machine of the namespace"
	Selector metav1.LabelSelector `json:"selector"`
	// Template describes the Machines.
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty,omitzero"`
	// Removals names Machines to delete first. In a set of a deployment, the list is the set's share of the deployment's list, and is
	// changed in the same write as Replicas.
	// +optional
	// +kubebuilder:validation:MaxItems=2000
	// +listType=map
	// +listMapKey=name
	Removals []Removal `json:"removals,omitempty"`
	// RolloutRemovals names Machines that a rollout of the set's deployment removes. The write that adds entries also lowers Replicas by
	// their number. The set deletes these Machines as it deletes those in Removals. A Machine with an entry counts towards the
	// deployment's replicas plus maxSurge until its server is gone. The next write of the set drops the entries of Machines that are
	// gone.
	// +optional
	// +kubebuilder:validation:MaxItems=2000
	// +listType=map
	// +listMapKey=name
	RolloutRemovals []Removal `json:"rolloutRemovals,omitempty"`
	// PlaceholderSeries is the number in the names of the placeholders, which stand for replicas without a Node. A new number renames
	// all placeholders. It is used only when the set is a node group of its own. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PlaceholderSeries *int32 `json:"placeholderSeries,omitempty"`

	// Unknown are the paths of the fields that the object has and this type does not. They have no effect, and drover never writes them.
	Unknown []string `json:"-"`
}

// MachineSetStatus is the observed state of a set. A Machine that is being deleted, or named in spec.removals or spec.rolloutRemovals, is
// not counted.
type MachineSetStatus struct {
	// Replicas is the number of living Machines.
	// +optional
	Replicas int32 `json:"replicas"`
	// FullyLabeledReplicas is the number of living Machines with all labels of the template.
	// +optional
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas"`
	// ReadyReplicas is the number of living Machines whose Node is Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of living Machines that are not unhealthy and whose Node has been Ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// ObservedGeneration is the generation of the spec that the other fields describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ErrorReason is the stable code of an error; empty when there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ErrorReason *string `json:"errorReason,omitempty"`
	// ErrorMessage describes the error, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	ErrorMessage *string `json:"errorMessage,omitempty"`
	// Selector is the label selector in string form, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Selector string `json:"selector,omitempty"`
	// LastPlaceholderSeries has the same meaning as in a deployment's status. It is used only when the set belongs to no deployment.
	// +optional
	LastPlaceholderSeries *int32 `json:"lastPlaceholderSeries,omitempty"`
	// NodeTemplate is the node that a new Machine of this set will become. It is used only when the set is a node group of its own.
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
	// Backoffs are the failures, such as lack of quota or capacity, because of which Machines of the set wait. It is used only when the
	// set belongs to no deployment.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=class
	// +listMapKey=flavor
	// +listMapKey=zone
	Backoffs []GroupBackoff `json:"backoffs,omitempty"`
	// JoinOutcomes has the same meaning as in a deployment's status. It is used only when the set belongs to no deployment.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	JoinOutcomes []JoinOutcome `json:"joinOutcomes,omitempty"`
	// RecentJoins has the same meaning as in a deployment's status. It is used only when the set belongs to no deployment.
	// +optional
	// +kubebuilder:validation:MaxLength=10
	RecentJoins string `json:"recentJoins,omitempty"`
	// HealthReplacements are the Machines that drover replaces because they are unhealthy. It is used only when the set belongs to no
	// deployment.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	HealthReplacements []HealthReplacement `json:"healthReplacements,omitempty"`
	// Conditions are the conditions of the set.
	// +optional
	// +kubebuilder:validation:MaxItems=64
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
