package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineDeployment keeps a number of Machines of one template and replaces them when the template changes. Users and the
// cluster-autoscaler set its size: it is a node group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,shortName=md,categories=drover
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, legacy API"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].reason`
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Back-off",type=string,JSONPath=`.status.backoffs[0].code`
// +kubebuilder:printcolumn:name="Kubelet",type=string,JSONPath=`.spec.template.spec.versions.kubelet`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Min",type=string,JSONPath=`.metadata.annotations.cluster\.k8s\.io/cluster-api-autoscaler-node-group-min-size`,priority=1
// +kubebuilder:printcolumn:name="Max",type=string,JSONPath=`.metadata.annotations.cluster\.k8s\.io/cluster-api-autoscaler-node-group-max-size`,priority=1
// +kubebuilder:printcolumn:name="Frozen",type=string,JSONPath=`.status.conditions[?(@.type=="drover-project.github.io/Frozen")].status`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`,priority=1
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.template.spec.providerSpec.value.cloudProvider`,priority=1
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.spec.template.spec.providerSpec.value.operatingSystem`,priority=1
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.template.spec.providerSpec.value.cloudProviderSpec.availabilityZone`,priority=1
// +kubebuilder:printcolumn:name="Flavor",type=string,JSONPath=`.spec.template.spec.providerSpec.value.cloudProviderSpec.flavor`,priority=1
// +kubebuilder:printcolumn:name="Deleted",type=date,JSONPath=`.metadata.deletionTimestamp`,priority=1
type MachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MachineDeploymentSpec `json:"spec,omitempty"`
	// +optional
	Status MachineDeploymentStatus `json:"status,omitempty"`
}

// StrategyType is how Machines of an old template are replaced.
type StrategyType string

// The strategies.
const (
	// RollingUpdate replaces a few Machines at a time, within MaxSurge and MaxUnavailable.
	RollingUpdate StrategyType = "RollingUpdate"
	// OnDelete replaces a Machine only when a user has deleted it.
	OnDelete StrategyType = "OnDelete"
	// Recreate removes all old Machines before it creates new ones.
	Recreate StrategyType = "Recreate"
)

// MachineDeploymentStrategy is how Machines of an old template are replaced.
type MachineDeploymentStrategy struct {
	// Type is RollingUpdate (default), OnDelete or Recreate.
	// +optional
	// +kubebuilder:validation:Enum="";RollingUpdate;OnDelete;Recreate
	Type StrategyType `json:"type,omitempty"`
	// RollingUpdate limits a rolling update. The other strategies ignore it.
	// +optional
	RollingUpdate *MachineRollingUpdate `json:"rollingUpdate,omitempty"`
}

// MachineRollingUpdate limits a rolling update.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !(self.maxSurge == 0 || self.maxSurge == '0%' || self.maxSurge == '0') || (has(self.maxUnavailable) && !(self.maxUnavailable == 0 || self.maxUnavailable == '0%' || self.maxUnavailable == '0'))",message="maxSurge and maxUnavailable must not both be 0: nothing could ever be replaced"
type MachineRollingUpdate struct {
	// MaxUnavailable is how many Machines may be missing, as a number or a percentage (rounded down). Text without a percent sign is a
	// percentage too. Default: 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^([0-9]{1,2}|100)%?$')",message="must be a number, at least 0, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Machines may exist beyond replicas, as a number or a percentage (rounded up). Text without a percent sign
	// is a percentage too. Default: 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]+%?$')",message="must be a number, at least 0, or a percentage like 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// MachineDeploymentSpec is the desired state of a deployment.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || (oldSelf.hasValue() && !has(oldSelf.value().selector))",message="spec.selector must not be empty: it would take every Machine of the namespace",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchLabels) || (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k]) : size(self.selector.matchLabels) == 0) || (oldSelf.hasValue() && has(oldSelf.value().selector) && self.selector == oldSelf.value().selector && (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels) && self.template.metadata.labels == oldSelf.value().template.metadata.labels : !(has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels))))",message="spec.template.metadata.labels must hold every label of spec.selector.matchLabels",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchExpressions) || (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? self.selector.matchExpressions.all(e, e.operator == 'In' ? e.key in self.template.metadata.labels && has(e.values) && self.template.metadata.labels[e.key] in e.values : e.operator == 'Exists' ? e.key in self.template.metadata.labels : e.operator == 'NotIn' ? !(e.key in self.template.metadata.labels && has(e.values) && self.template.metadata.labels[e.key] in e.values) : e.operator == 'DoesNotExist' && !(e.key in self.template.metadata.labels)) : self.selector.matchExpressions.all(e, e.operator in ['NotIn', 'DoesNotExist'])) || (oldSelf.hasValue() && has(oldSelf.value().selector) && self.selector == oldSelf.value().selector && (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels) && self.template.metadata.labels == oldSelf.value().template.metadata.labels : !(has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels))))",message="spec.template.metadata.labels must match spec.selector.matchExpressions, whose operators are In, NotIn, Exists and DoesNotExist",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || ((!has(oldSelf.selector.matchLabels) || size(oldSelf.selector.matchLabels) == 0) && (!has(oldSelf.selector.matchExpressions) || size(oldSelf.selector.matchExpressions) == 0)) || (has(self.selector) && self.selector == oldSelf.selector)",message="spec.selector does not change: make a new object instead"
type MachineDeploymentSpec struct {
	// Replicas is the desired number of living Machines. The schema has no default: nil means that the writer does not manage the size, and
	// the controller restores the last size, within the bounds. A new object without a size gets the minimum when it has bounds, else 1.
	// The maximum is 100000. An older version may have stored a larger size: drover does nothing for such an object, and reports
	// SizeTooLarge in its condition Progressing.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector finds the deployment's sets and Machines. It must match the template's labels, and is immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty: it would take every Machine of the namespace"
	Selector metav1.LabelSelector `json:"selector"`
	// Template describes the Machines. Any change of the template rolls the Machines.
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty,omitzero"`
	// Strategy is how Machines of an old template are replaced.
	// +optional
	Strategy *MachineDeploymentStrategy `json:"strategy,omitempty"`
	// MinReadySeconds is how long a node must have been Ready to count as available. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// RevisionHistoryLimit is how many empty old sets are kept. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Paused stops rollouts, the first one of a new deployment too. Changes of the size still have their effect.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// ProgressDeadlineSeconds is how long a rollout may go without progress. Default: 600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// Removals names Machines to delete. It is written in the same update that lowers Replicas.
	// +optional
	// +kubebuilder:validation:MaxItems=2000
	// +listType=map
	// +listMapKey=name
	Removals []Removal `json:"removals,omitempty"`
	// PlaceholderSeries is the number in the names of the placeholders, which stand for replicas without a Node. A new number renames
	// all placeholders, so that the autoscaler's timeout for them starts again. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PlaceholderSeries *int32 `json:"placeholderSeries,omitempty"`

	// Unknown are the paths of the fields that the object has and this type does not. They have no effect, and drover never writes them.
	Unknown []string `json:"-"`
}

// MachineDeploymentStatus is the observed state of a deployment. A Machine that is being deleted or named in spec.removals is not counted.
type MachineDeploymentStatus struct {
	// ObservedGeneration is the generation of the spec that the other fields describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of living Machines.
	// +optional
	Replicas int32 `json:"replicas"`
	// UpdatedReplicas is the number of living Machines of the current template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// ReadyReplicas is the number of living Machines whose Node is Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of living Machines that are not unhealthy and whose Node has been Ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// UnavailableReplicas is the number of wanted Machines that do not exist yet or are not available.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`
	// Selector is the label selector in string form, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Selector string `json:"selector,omitempty"`
	// LastReplicas is the last value of spec.replicas. It is restored when a writer drops the field.
	// +optional
	LastReplicas *int32 `json:"lastReplicas,omitempty"`
	// LastPlaceholderSeries is the last value of spec.placeholderSeries. It is restored when a writer drops the field.
	// +optional
	LastPlaceholderSeries *int32 `json:"lastPlaceholderSeries,omitempty"`
	// CollisionCount makes the name of a new set unique when another template had the same hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// NodeTemplate is the node that a new Machine of this deployment will become, for the autoscaler.
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
	// Backoffs are the failures, such as lack of quota or capacity, because of which Machines of the deployment wait. While the back-off of
	// an entry runs, no Machine of the deployment requests that flavor in that zone.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=class
	// +listMapKey=flavor
	// +listMapKey=zone
	Backoffs []GroupBackoff `json:"backoffs,omitempty"`
	// JoinOutcomes are the outcomes of the last ten servers that should have become nodes, the newest last. The list is empty while no
	// server has failed to join. Package machines/backoff describes how drover reads JoinOutcomes and RecentJoins together.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	JoinOutcomes []JoinOutcome `json:"joinOutcomes,omitempty"`
	// RecentJoins holds the same outcomes as JoinOutcomes, one letter for each: j means joined, f means failed. Releases that do not
	// know JoinOutcomes read only this field.
	// +optional
	// +kubebuilder:validation:MaxLength=10
	RecentJoins string `json:"recentJoins,omitempty"`
	// HealthReplacements are the Machines that drover replaces because they are unhealthy.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	HealthReplacements []HealthReplacement `json:"healthReplacements,omitempty"`
	// Conditions are the conditions of the deployment.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JoinOutcome is the outcome of waiting for a server to become a node.
// +kubebuilder:validation:Enum=Joined;Failed
type JoinOutcome string

// The outcomes of a join.
const (
	// JoinSucceeded means that the server became a node.
	JoinSucceeded JoinOutcome = "Joined"
	// JoinFailed means that the server did not become a node within the join timeout.
	JoinFailed JoinOutcome = "Failed"
)

// GroupBackoff records a failure that affects all Machines of one flavor and zone: quota, capacity, an invalid spec. The record remains
// when the Machine that had the failure is deleted.
type GroupBackoff struct {
	// Class is the class of the failure (package machines/fault).
	// +kubebuilder:validation:MaxLength=64
	Class string `json:"class"`
	// Flavor is the requested flavor; empty when the failure does not concern a flavor.
	// +kubebuilder:validation:MaxLength=253
	Flavor string `json:"flavor"`
	// Zone is the requested zone; empty when the spec left the choice of the zone to the cloud.
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`
	// Code is the stable name of the cause (package machines/fault).
	// +kubebuilder:validation:MaxLength=253
	Code string `json:"code"`
	// Message is what the Machine reported, at most 1024 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Machine is the name of the Machine that reported Message. That Machine may have been deleted since then. The name is empty in
	// entries of older releases.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`
	// Since is the time of the first of the consecutive failures.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when drover may ask the cloud again.
	Until metav1.Time `json:"until"`
	// Step counts the consecutive failures. The wait doubles with each failure, from 30 seconds to 5 minutes. When servers are in ERROR
	// for a reason that may concern one server only (class Unknown), the first failure starts no wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Step int32 `json:"step,omitempty"`
	// Revision is the revision of the template that had the failure. Machines of a newer template do not wait because of this failure.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision,omitempty"`
	// Server is the ID of the server whose failure was counted last. With this ID, drover does not count the same failure twice. Empty
	// when the cloud refused the request itself.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server,omitempty"`
}

// MessageFor returns the message for the Machine named machine, which waits for the back-off. When another Machine reported the message,
// the text names that Machine, because the message contains the names of that Machine's server and ports.
func (b *GroupBackoff) MessageFor(machine string) string {
	if b.Machine == "" || b.Machine == machine {
		return b.Message
	}
	return "Machine " + b.Machine + " of the same group reported: " + b.Message
}

// NodeTemplate describes a node that does not exist yet.
type NodeTemplate struct {
	// Capacity is the capacity of the node.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Allocatable is the part of Capacity that pods can use.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Labels are the labels of the node.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints of the node, without the startup taint.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`
	// ResolvedFor is a hash of the Machine template from which this node template was computed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResolvedFor string `json:"resolvedFor,omitempty"`
	// LearnedFor is a hash of the flavor, image, kubelet and reservations of the group's own nodes from which capacity and allocatable were
	// learned. Empty while the group has no such node. Groups of the same namespace use what a group with the same hash has learned.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LearnedFor string `json:"learnedFor,omitempty"`
}

// +kubebuilder:object:root=true

// MachineDeploymentList is a list of MachineDeployments.
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineDeployment `json:"items"`
}
