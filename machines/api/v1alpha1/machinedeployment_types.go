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
	Type StrategyType `json:"type,omitempty"`
	// +optional
	RollingUpdate *MachineRollingUpdate `json:"rollingUpdate,omitempty"`
}

// MachineRollingUpdate bounds a rolling update.
type MachineRollingUpdate struct {
	// MaxUnavailable is how many Machines may be missing, as a number or a percentage (rounded down). Default: 0.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many Machines there may be beyond replicas, as a number or a percentage (rounded up). Default: 1.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// MachineDeploymentSpec is what a deployment should be.
type MachineDeploymentSpec struct {
	// Replicas is the number of living Machines wanted. The schema gives no default: nil means that the writer does
	// not manage the size, and the controller puts the last size back, clamped to the bounds. A new object without it
	// gets the minimum when it has bounds, else 1.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector finds the deployment's sets and Machines. It must match the template's labels.
	Selector metav1.LabelSelector `json:"selector"`
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty"`
	// +optional
	Strategy *MachineDeploymentStrategy `json:"strategy,omitempty"`
	// MinReadySeconds is how long a node must have been Ready to count as available. Default: 0.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// RevisionHistoryLimit is how many empty old sets are kept. Default: 1.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Paused stops rollouts; the size is still followed.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// ProgressDeadlineSeconds is how long a rollout may go without progress. Default: 600.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// Removals are Machines that go, written in the same update that lowers Replicas.
	// +optional
	// +listType=map
	// +listMapKey=name
	Removals []Removal `json:"removals,omitempty"`
	// PlaceholderSeries renames the placeholders of units without a Machine, so that the autoscaler's clock for them
	// starts anew. Default: 0.
	// +optional
	PlaceholderSeries *int32 `json:"placeholderSeries,omitempty"`
}

// MachineDeploymentStatus is what is known of a deployment. A Machine that is deleting or listed in spec.removals is
// counted nowhere.
type MachineDeploymentStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`
	// Selector is the label selector in string form, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// LastReplicas is the last size that spec.replicas named; it is put back when a writer drops the field.
	// +optional
	LastReplicas *int32 `json:"lastReplicas,omitempty"`
	// CollisionCount makes the name of a new set unique when another template had the same hash.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// NodeTemplate is the node that a new Machine of this deployment will become, as the autoscaler is told.
	// +optional
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeTemplate describes a node that does not exist yet.
type NodeTemplate struct {
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// +kubebuilder:object:root=true

// MachineDeploymentList is a list of MachineDeployments.
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineDeployment `json:"items"`
}
