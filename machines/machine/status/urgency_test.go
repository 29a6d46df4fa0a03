package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	openstack "github.com/drover-project/drover/machines/openstack/provider"
)

// showing returns a function that sets one condition of a Machine.
func showing(name string, status corev1.ConditionStatus, reason, message string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		SetCondition(m, name, Verdict{status, reason, message}, metav1.NewTime(time.Unix(1, 0)))
	}
}

// building returns a stored Machine whose server is recorded and being built.
func building() *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u", Finalizers: []string{v1alpha1.FinalizerServer}}}
	m.Spec.ProviderID = ptr.To("openstack:///s")
	m.Status.Phase = ptr.To(v1alpha1.PhaseProvisioning)
	m.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"serverID":"s","volumeIDs":["v"]}`)}
	m.Status.LastOperation = &v1alpha1.LastOperation{Type: ptr.To("Create"), State: ptr.To(stateProcessing), Description: ptr.To("")}
	showing(v1alpha1.ConditionServerReady, corev1.ConditionFalse, lifecycle.ReasonServerBuilding, "")(m)
	showing(v1alpha1.ConditionReady, corev1.ConditionFalse, lifecycle.ReasonServerBuilding, "")(m)
	return m
}

func leaving(m *v1alpha1.Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(2, 0))) }

// stillBlocked is a drain whose condition names a pod that a budget blocks, and another pod that leaves.
func stillBlocked(m *v1alpha1.Machine) {
	leaving(m)
	showing(v1alpha1.ConditionDeleting, corev1.ConditionTrue, lifecycle.ReasonDraining, BlockedPrefix+"ns/p: no; "+LeavingPrefix+"ns/other")(m)
}

func registered(m *v1alpha1.Machine) {
	m.Status.NodeRef = &corev1.ObjectReference{Name: "m"}
	m.Status.Phase = ptr.To(v1alpha1.PhaseJoined)
}

func addressed(m *v1alpha1.Machine) {
	m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
}

func provider(record string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { m.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(record)} }
}

func operates(kind, state, text string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Status.LastOperation = &v1alpha1.LastOperation{Type: &kind, State: &state, Description: &text, LastUpdated: ptr.To(metav1.NewTime(time.Unix(3, 0)))}
	}
}

func TestUrgentChangesOfAMachineAreWrittenAtOnceAndOthersCanWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		// stored changes the stored Machine, unless stored is nil. now is the change that Urgent decides about.
		stored, now func(*v1alpha1.Machine)
		urgent      bool
	}{
		{"a status without a change is not urgent", nil, func(*v1alpha1.Machine) {}, false},
		{"a new zone and host of the server can wait", nil, provider(`{"serverID":"s","zone":"z","hostID":"h","volumeIDs":["v"]}`), false},
		{"new IDs of ports and floating IP can wait, because owner tags in the cloud also name the Machine", nil, provider(`{"serverID":"s","portIDs":["p"],"floatingIPID":"f","volumeIDs":["v"]}`), false},
		{"a new volume ID is urgent, because nothing else names the volume once the server is gone", nil, provider(`{"serverID":"s","volumeIDs":["v","w"]}`), true},
		{"the server's change to ACTIVE can wait", nil, showing(v1alpha1.ConditionServerReady, corev1.ConditionTrue, lifecycle.ReasonServerActive, ""), false},
		{"the server's change to ERROR is urgent", nil, showing(v1alpha1.ConditionServerReady, corev1.ConditionFalse, lifecycle.ReasonServerError, "no host"), true},
		{"the discovery that the server has stopped is urgent", nil, showing(v1alpha1.ConditionServerReady, corev1.ConditionUnknown, lifecycle.ReasonServerStopped, "SHUTOFF"), true},
		{"new addresses of the server can wait while there is no Node", nil, addressed, false},
		{"new addresses of the server are urgent when there is a Node, whose serving certificate must match them", registered, addressed, true},
		{"a new kubelet version can wait", nil, func(m *v1alpha1.Machine) { m.Status.Versions = &v1alpha1.MachineVersionInfo{Kubelet: "v1"} }, false},
		{"a new reason of condition Ready can wait while the Node is awaited", nil, showing(v1alpha1.ConditionReady, corev1.ConditionFalse, lifecycle.ReasonWaitingForNode, "since"), false},
		{"the discovery that the Node belongs to another Machine is urgent", nil, showing(v1alpha1.ConditionReady, corev1.ConditionFalse, lifecycle.ReasonNodeTaken, "m"), true},
		{"the change of condition Ready to True is urgent", registered, showing(v1alpha1.ConditionReady, corev1.ConditionTrue, lifecycle.ReasonNodeReady, ""), true},
		{"the change of condition Ready to False is urgent", showing(v1alpha1.ConditionReady, corev1.ConditionTrue, lifecycle.ReasonNodeReady, ""),
			showing(v1alpha1.ConditionReady, corev1.ConditionFalse, lifecycle.ReasonNodeNotReady, ""), true},
		{"a change of condition Ready can wait while the Machine is being deleted", leaving, showing(v1alpha1.ConditionReady, corev1.ConditionUnknown, lifecycle.ReasonNodeMissing, ""), false},
		{"the message that the spec is valid can wait", nil, showing(v1alpha1.ConditionSpecValid, corev1.ConditionTrue, lifecycle.ReasonSpecValid, ""), false},
		{"the message that the spec is invalid is urgent", nil, showing(v1alpha1.ConditionSpecValid, corev1.ConditionFalse, "InvalidSpec", ""), true},
		{"new warnings about fields without effect can wait", nil, showing(v1alpha1.ConditionWarnings, corev1.ConditionTrue, lifecycle.ReasonWithoutEffect, "w"), false},
		{"new output of the server's console is urgent, because drover does not read the console again soon", nil, showing(v1alpha1.ConditionConsole, corev1.ConditionTrue, lifecycle.ReasonWaitingForNode, "c"), true},
		{"the change to phase Pending can wait", nil, func(m *v1alpha1.Machine) { m.Status.Phase = ptr.To(v1alpha1.PhasePending) }, false},
		{"the change to phase Failed is urgent", nil, func(m *v1alpha1.Machine) { m.Status.Phase = ptr.To(v1alpha1.PhaseFailed) }, true},
		{"the change to phase Running is urgent", nil, func(m *v1alpha1.Machine) { m.Status.Phase = ptr.To(v1alpha1.PhaseRunning) }, true},
		{"the server's new provider ID is urgent", func(m *v1alpha1.Machine) { m.Spec.ProviderID = nil }, func(m *v1alpha1.Machine) { m.Spec.ProviderID = ptr.To("openstack:///s") }, true},
		{"a change of finalizers is urgent", nil, func(m *v1alpha1.Machine) { m.Finalizers = nil }, true},
		{"a new reference to the Node is urgent, because certificates and rollouts wait for the Node", nil, registered, true},
		{"a new error in the Machine's status is urgent", nil, func(m *v1alpha1.Machine) { m.Status.ErrorReason = ptr.To("QuotaExceeded") }, true},
		{"the removal of an error from the Machine's status is urgent", func(m *v1alpha1.Machine) { m.Status.ErrorReason = ptr.To("QuotaExceeded") }, func(m *v1alpha1.Machine) { m.Status.ErrorReason = nil }, true},
		{"a new back-off of the Machine's group is urgent", nil, func(m *v1alpha1.Machine) { m.Status.Backoffs = []v1alpha1.GroupBackoff{{Class: "Quota"}} }, true},
		{"the success of the Machine's last operation can wait", nil, operates("Join", stateSuccessful, ""), false},
		{"the failure of the Machine's last operation is urgent, because after a restart the back-off counts from the failure's time", nil, operates("Create", v1alpha1.OperationFailed, "no"), true},
		{"the start of the wait until volumes are detached is urgent, because drover limits the wait to a fixed time from this start", leaving, operates("Delete", stateProcessing, lifecycle.ReasonDetaching), true},
		{"the change to phase Deleting can wait", leaving, func(m *v1alpha1.Machine) { m.Status.Phase = ptr.To(v1alpha1.PhaseDeleting) }, false},
		{"the progress of a drain can wait", leaving, showing(v1alpha1.ConditionDeleting, corev1.ConditionTrue, lifecycle.ReasonDraining, "pods are leaving the Node: ns/p"), false},
		{"the message about refused evictions is urgent", leaving, showing(v1alpha1.ConditionDeleting, corev1.ConditionTrue, lifecycle.ReasonDraining, BlockedPrefix+"ns/p: no"), true},
		{"the pods that leave while evictions are refused can wait", stillBlocked, showing(v1alpha1.ConditionDeleting, corev1.ConditionTrue, lifecycle.ReasonDraining, BlockedPrefix+"ns/p: no; "+LeavingPrefix+"ns/q"), false},
		{"the message that the server is being deleted can wait", leaving, showing(v1alpha1.ConditionDeleting, corev1.ConditionTrue, lifecycle.ReasonDeletingServer, "s"), false},
		{"the message that the deletion of a CRD blocks the Machine's deletion is urgent", leaving, showing(v1alpha1.ConditionDeleting, corev1.ConditionTrue, lifecycle.ReasonKindBeingDeleted, "crd"), true},
		{"the message that the cloud refuses the deletion is urgent", leaving, showing(v1alpha1.ConditionDeleting, corev1.ConditionTrue, lifecycle.ReasonCloudUnusable, "Secret"), true},
	} {
		t.Run(tt.name+" (F-57)", func(t *testing.T) {
			stored := building()
			if tt.stored != nil {
				tt.stored(stored)
			}
			now := stored.DeepCopy()
			tt.now(now)
			if got := Urgent(openstack.Provider{}, stored, now); got != tt.urgent {
				t.Errorf("Urgent() = %v, want %v", got, tt.urgent)
			}
		})
	}
	t.Run("several changes are urgent when one of these changes is urgent (F-57)", func(t *testing.T) {
		stored, now := building(), building()
		addressed(now)
		provider(`{"serverID":"s","zone":"z","volumeIDs":["v"]}`)(now)
		registered(now)
		if !Urgent(openstack.Provider{}, stored, now) {
			t.Error("the Node's registration is not urgent")
		}
	})
}
