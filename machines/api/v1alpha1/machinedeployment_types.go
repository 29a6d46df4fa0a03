package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MachineDeployment keeps a number of Machines of one template and rolls them when the template changes. It is what
// people and the cluster-autoscaler size: a node group.
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

// StrategyType says how Machines of an old template are replaced.
type StrategyType string

// The strategies.
const (
	// RollingUpdate replaces a few at a time, within MaxSurge and MaxUnavailable.
	RollingUpdate StrategyType = "RollingUpdate"
	// OnDelete replaces a Machine only once somebody has deleted it.
	OnDelete StrategyType = "OnDelete"
	// Recreate removes all old Machines before it makes new ones.
	Recreate StrategyType = "Recreate"
)

// MachineDeploymentStrategy says how Machines of an old template are replaced.
type MachineDeploymentStrategy struct {
	// Type is RollingUpdate (default), OnDelete or Recreate.
	// +optional
	// +kubebuilder:validation:Enum="";RollingUpdate;OnDelete;Recreate
	Type StrategyType `json:"type,omitempty"`
	// RollingUpdate bounds a rolling update; the other strategies do not look at it.
	// +optional
	RollingUpdate *MachineRollingUpdate `json:"rollingUpdate,omitempty"`
}

// MachineRollingUpdate bounds a rolling update.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !(self.maxSurge == 0 || self.maxSurge == '0%') || (has(self.maxUnavailable) && !(self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",message="maxSurge and maxUnavailable must not both be 0: nothing could ever be replaced"
type MachineRollingUpdate struct {
	// MaxUnavailable is how many Machines may be missing, as a number or a percentage (rounded down). Default: 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^([0-9]{1,2}|100)%$')",message="must be a number, at least 0, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Machines there may be beyond replicas, as a number or a percentage (rounded up). Default: 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]+%$')",message="must be a number, at least 0, or a percentage like 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// MachineDeploymentSpec is what a deployment should be.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || (oldSelf.hasValue() && !has(oldSelf.value().selector))",message="spec.selector must not be empty: it would take every Machine of the namespace",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchLabels) || (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k]) : size(self.selector.matchLabels) == 0) || (oldSelf.hasValue() && has(oldSelf.value().selector) && self.selector == oldSelf.value().selector && (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels) && self.template.metadata.labels == oldSelf.value().template.metadata.labels : !(has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels))))",message="spec.template.metadata.labels must hold every label of spec.selector.matchLabels",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || !has(self.selector.matchExpressions) || (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? self.selector.matchExpressions.all(e, e.operator == 'In' ? e.key in self.template.metadata.labels && has(e.values) && self.template.metadata.labels[e.key] in e.values : e.operator == 'Exists' ? e.key in self.template.metadata.labels : e.operator == 'NotIn' ? !(e.key in self.template.metadata.labels && has(e.values) && self.template.metadata.labels[e.key] in e.values) : e.operator == 'DoesNotExist' && !(e.key in self.template.metadata.labels)) : self.selector.matchExpressions.all(e, e.operator in ['NotIn', 'DoesNotExist'])) || (oldSelf.hasValue() && has(oldSelf.value().selector) && self.selector == oldSelf.value().selector && (has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) ? has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels) && self.template.metadata.labels == oldSelf.value().template.metadata.labels : !(has(oldSelf.value().template) && has(oldSelf.value().template.metadata) && has(oldSelf.value().template.metadata.labels))))",message="spec.template.metadata.labels must match spec.selector.matchExpressions, whose operators are In, NotIn, Exists and DoesNotExist",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.selector) || ((!has(oldSelf.selector.matchLabels) || size(oldSelf.selector.matchLabels) == 0) && (!has(oldSelf.selector.matchExpressions) || size(oldSelf.selector.matchExpressions) == 0)) || (has(self.selector) && self.selector == oldSelf.selector)",message="spec.selector does not change: make a new object instead"
type MachineDeploymentSpec struct {
	// Replicas is the number of living Machines wanted. The schema gives no default: nil means that the writer does
	// not manage the size, and the controller puts the last size back, clamped to the bounds. A new object without it
	// gets the minimum when it has bounds, else 1. At most 100000: with a larger size, stored before there was this
	// bound, nothing is done for the object, and its condition Progressing says SizeTooLarge.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector finds the deployment's sets and Machines. It must match the template's labels, and does not change.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty: it would take every Machine of the namespace"
	Selector metav1.LabelSelector `json:"selector"`
	// Template describes the Machines. Any change to it rolls them.
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty,omitzero"`
	// Strategy says how Machines of an old template are replaced.
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
	// Paused stops rollouts; the size is still followed.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// ProgressDeadlineSeconds is how long a rollout may go without progress. Default: 600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// Removals are Machines that go, written in the same update that lowers Replicas.
	// +optional
	// +kubebuilder:validation:MaxItems=2000
	// +listType=map
	// +listMapKey=name
	Removals []Removal `json:"removals,omitempty"`
	// PlaceholderSeries renames the placeholders of units without a Machine, so that the autoscaler's clock for them
	// starts anew. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PlaceholderSeries *int32 `json:"placeholderSeries,omitempty"`
}

// MachineDeploymentStatus is what is known of a deployment. A Machine that is deleting or listed in spec.removals is
// counted nowhere.
type MachineDeploymentStatus struct {
	// ObservedGeneration is the generation of the spec that the other fields speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of living Machines.
	// +optional
	Replicas int32 `json:"replicas"`
	// UpdatedReplicas are those of the present template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// ReadyReplicas are those whose node is Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas are those whose node has been Ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// UnavailableReplicas are those missing for all wanted to be available.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`
	// Selector is the label selector in string form, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Selector string `json:"selector,omitempty"`
	// LastReplicas is the last size that spec.replicas named; it is put back when a writer drops the field.
	// +optional
	LastReplicas *int32 `json:"lastReplicas,omitempty"`
	// LastPlaceholderSeries is the last value of spec.placeholderSeries; it is put back when a writer drops the field.
	// +optional
	LastPlaceholderSeries *int32 `json:"lastPlaceholderSeries,omitempty"`
	// CollisionCount makes the name of a new set unique when another template had the same hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// NodeTemplate is the node that a new Machine of this deployment will become, as the autoscaler is told.
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
	// Backoffs are the shortages that the cloud has answered with: while one runs, no Machine of the deployment asks the
	// cloud for that flavor in that zone.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=class
	// +listMapKey=flavor
	// +listMapKey=zone
	Backoffs []GroupBackoff `json:"backoffs,omitempty"`
	// JoinOutcomes are the outcomes of the last ten servers that were to become nodes, the newest last. Empty while none has
	// failed. Package machines/backoff says how it and RecentJoins are read together.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	JoinOutcomes []JoinOutcome `json:"joinOutcomes,omitempty"`
	// RecentJoins holds the same as JoinOutcomes, as one letter for each: j joined, f failed. Releases before JoinOutcomes
	// read only this field.
	// +optional
	// +kubebuilder:validation:MaxLength=10
	RecentJoins string `json:"recentJoins,omitempty"`
	// HealthReplacements are the Machines that drover replaces because they are unhealthy.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	HealthReplacements []HealthReplacement `json:"healthReplacements,omitempty"`
	// Conditions of the deployment.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JoinOutcome is how the wait for a server to become a node has ended.
// +kubebuilder:validation:Enum=Joined;Failed
type JoinOutcome string

// The outcomes of a join.
const (
	// JoinSucceeded: the server has become a node.
	JoinSucceeded JoinOutcome = "Joined"
	// JoinFailed: it has not, within the join timeout.
	JoinFailed JoinOutcome = "Failed"
)

// GroupBackoff is what is remembered of a failure that all Machines of one flavor and zone would meet: quota, capacity, a
// spec that cannot be. It outlives the Machine that met it.
type GroupBackoff struct {
	// Class of the failure (package machines/fault).
	// +kubebuilder:validation:MaxLength=64
	Class string `json:"class"`
	// Flavor that was asked for; empty when the failure is not about one.
	// +kubebuilder:validation:MaxLength=253
	Flavor string `json:"flavor"`
	// Zone that was asked for; empty when the cloud was to choose.
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`
	// Code is the stable name of the cause (package machines/fault).
	// +kubebuilder:validation:MaxLength=253
	Code string `json:"code"`
	// Message is what the Machine reported, at most 1024 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Machine is the name of the Machine that reported Message; it may have been deleted since. Empty in entries of older
	// releases.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`
	// Since is when the first failure of this row of failures was.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when the cloud may be asked again.
	Until metav1.Time `json:"until"`
	// Step counts the failures in a row; the wait doubles with each, from 30 seconds to 5 minutes. Of servers that went to
	// ERROR for a reason that is not known to concern all (class Unknown) the first one begins no wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Step int32 `json:"step,omitempty"`
	// Revision is that of the template that met the failure: a newer one does not wait for it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision,omitempty"`
	// Server is the ID of the server whose failure was counted last, so that it is counted once; empty when the cloud
	// refused the request itself.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server,omitempty"`
}

// MessageFor returns the message for a Machine that waits for the back-off: when another Machine reported it, it says which,
// since the message names that one's server and ports.
func (b *GroupBackoff) MessageFor(machine string) string {
	if b.Machine == "" || b.Machine == machine {
		return b.Message
	}
	return "Machine " + b.Machine + " of the same group reported: " + b.Message
}

// NodeTemplate describes a node that does not exist yet.
type NodeTemplate struct {
	// Capacity of the node.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Allocatable is what pods can have of it.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Labels of the node.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of the node, without the startup taint.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`
	// ResolvedFor is a hash of the Machine template that this was resolved from.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResolvedFor string `json:"resolvedFor,omitempty"`
	// LearnedFor is a hash of the flavor, image, kubelet and reservations of the real nodes that capacity and allocatable
	// were learned from; empty while they are computed from the flavor.
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
