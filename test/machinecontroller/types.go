package machinecontroller

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Machine is the Go type of machine-controller's kind Machine. Unlike in drover's own type, spec.metadata is a whole
// ObjectMeta.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MachineSpec   `json:"spec,omitempty"`
	Status            MachineStatus `json:"status,omitempty"`
}

// MachineSpec is the spec of a Machine.
type MachineSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Taints            []corev1.Taint           `json:"taints,omitempty"`
	ProviderSpec      ProviderSpec             `json:"providerSpec"`
	Versions          Versions                 `json:"versions,omitempty"`
	ConfigSource      *corev1.NodeConfigSource `json:"configSource,omitempty"`
	ProviderID        *string                  `json:"providerID,omitempty"`
}

// ProviderSpec holds the part of a Machine's spec that depends on the cloud.
type ProviderSpec struct {
	Value     *runtime.RawExtension `json:"value,omitempty"`
	ValueFrom *ProviderSpecSource   `json:"valueFrom,omitempty"`
}

// ProviderSpecSource refers to the location of a provider spec.
type ProviderSpecSource struct {
	MachineClass *MachineClassRef `json:"machineClass,omitempty"`
}

// MachineClassRef refers to a MachineClass.
type MachineClassRef struct {
	*corev1.ObjectReference `json:",inline"`
	Provider                string `json:"provider,omitempty"`
}

// Versions holds the versions of a node.
type Versions struct {
	Kubelet      string `json:"kubelet"`
	ControlPlane string `json:"controlPlane,omitempty"`
}

// MachineStatus is the status of a Machine.
type MachineStatus struct {
	NodeRef        *corev1.ObjectReference `json:"nodeRef,omitempty"`
	LastUpdated    *metav1.Time            `json:"lastUpdated,omitempty"`
	Versions       *Versions               `json:"versions,omitempty"`
	ErrorReason    *string                 `json:"errorReason,omitempty"`
	ErrorMessage   *string                 `json:"errorMessage,omitempty"`
	ProviderStatus *runtime.RawExtension   `json:"providerStatus,omitempty"`
	Addresses      []corev1.NodeAddress    `json:"addresses,omitempty"`
	Conditions     []corev1.NodeCondition  `json:"conditions,omitempty"`
	LastOperation  *LastOperation          `json:"lastOperation,omitempty"`
	Phase          *string                 `json:"phase,omitempty"`
}

// LastOperation is the last operation on a Machine.
type LastOperation struct {
	Description *string      `json:"description,omitempty"`
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	State       *string      `json:"state,omitempty"`
	Type        *string      `json:"type,omitempty"`
}

// MachineTemplate is the template of the Machines of a set or a deployment.
type MachineTemplate struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MachineSpec `json:"spec,omitempty"`
}

// MachineSet is the Go type of machine-controller's kind MachineSet.
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Replicas        *int32               `json:"replicas,omitempty"`
		MinReadySeconds int32                `json:"minReadySeconds,omitempty"`
		DeletePolicy    string               `json:"deletePolicy,omitempty"`
		Selector        metav1.LabelSelector `json:"selector"`
		Template        MachineTemplate      `json:"template,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Replicas             int32   `json:"replicas"`
		FullyLabeledReplicas int32   `json:"fullyLabeledReplicas,omitempty"`
		ReadyReplicas        int32   `json:"readyReplicas,omitempty"`
		AvailableReplicas    int32   `json:"availableReplicas,omitempty"`
		ObservedGeneration   int64   `json:"observedGeneration,omitempty"`
		ErrorReason          *string `json:"errorReason,omitempty"`
		ErrorMessage         *string `json:"errorMessage,omitempty"`
	} `json:"status,omitempty"`
}

// MachineDeployment is the Go type of machine-controller's kind MachineDeployment.
type MachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Replicas *int32               `json:"replicas,omitempty"`
		Selector metav1.LabelSelector `json:"selector"`
		Template MachineTemplate      `json:"template"`
		Strategy *struct {
			Type          string `json:"type,omitempty"`
			RollingUpdate *struct {
				MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
				MaxSurge       *intstr.IntOrString `json:"maxSurge,omitempty"`
			} `json:"rollingUpdate,omitempty"`
		} `json:"strategy,omitempty"`
		MinReadySeconds         *int32 `json:"minReadySeconds,omitempty"`
		RevisionHistoryLimit    *int32 `json:"revisionHistoryLimit,omitempty"`
		Paused                  bool   `json:"paused,omitempty"`
		ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration  int64 `json:"observedGeneration,omitempty"`
		Replicas            int32 `json:"replicas,omitempty"`
		UpdatedReplicas     int32 `json:"updatedReplicas,omitempty"`
		ReadyReplicas       int32 `json:"readyReplicas,omitempty"`
		AvailableReplicas   int32 `json:"availableReplicas,omitempty"`
		UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`
	} `json:"status,omitempty"`
}
