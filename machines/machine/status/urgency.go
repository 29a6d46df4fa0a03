package status

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

// The parts of the message of condition Deleting during a drain: BlockedPrefix begins it while evictions are refused, and LeavingPrefix and
// DetachingPrefix come after everything that holds the drain up.
const (
	BlockedPrefix   = "evictions are refused: "
	LeavingPrefix   = "pods are leaving the Node: "
	DetachingPrefix = "volumes are being detached: "
)

// held returns the part of the message of condition Deleting that names what holds a drain up. The rest changes as pods leave.
func held(message string) string {
	message, _, _ = strings.Cut(message, LeavingPrefix)
	message, _, _ = strings.Cut(message, DetachingPrefix)
	return message
}

const (
	// LongestUnwritten is how long a change that is not urgent may wait, so that another write can include it. It keeps the
	// stored status at most half a minute old.
	LongestUnwritten = 25 * time.Second
	// longestBeforeNode is how long a change that is not urgent may wait if the Machine has no Node. Most servers become Nodes
	// within that time after they become ACTIVE, and one write then covers both changes.
	longestBeforeNode = 90 * time.Second
)

// MaxDelay returns how long a change of the Machine that is not urgent may stay unwritten.
func MaxDelay(m *v1alpha1.Machine) time.Duration {
	if m.DeletionTimestamp == nil && m.Status.NodeRef == nil {
		return longestBeforeNode
	}
	return LongestUnwritten
}

// Urgent reports whether the Machine must be written immediately, given its stored state. A change that is not urgent is part
// of the next write, or is written alone after [MaxDelay].
//
// Every change is urgent except information for users that a later reconcile can read again from the cloud or the Node: zone,
// host, ports, floating IP, the kubelet's version, that the server became ACTIVE, warnings, and the steps of a deletion that
// need no memory. So the finalizers, spec.providerID, status.nodeRef, errors, volumes, group back-offs, the console and a
// change of the status of condition Ready are urgent, because a new leader, other controllers, the approver of certificates
// and the node groups read them. Addresses are urgent once there is a Node, because the approver compares the Node's serving
// certificate with the addresses.
func Urgent(provider cloud.Provider, stored, now *v1alpha1.Machine) bool {
	rest := now.DeepCopy()
	s, was := &rest.Status, &stored.Status
	s.Versions = was.Versions
	s.Conditions = urgentConditions(stored, now)
	if s.NodeRef == nil {
		s.Addresses = was.Addresses
	}
	if !urgentPhase(ptr.Deref(s.Phase, "")) {
		s.Phase = was.Phase
	}
	if !urgentOperation(s.LastOperation) {
		s.LastOperation = was.LastOperation
	}
	if provider.Remembered(rest).AtOnce == provider.Remembered(stored).AtOnce {
		s.ProviderStatus = was.ProviderStatus
	}
	return !equality.Semantic.DeepEqual(stored, rest)
}

// urgentPhase reports whether a change to this phase must be written immediately, because another program waits for it.
// Pending, Provisioning and Deleting can wait: they follow from fields that are urgent themselves, or are shown elsewhere.
func urgentPhase(phase v1alpha1.MachinePhase) bool {
	switch phase {
	case v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseDeleting:
		return false
	}
	return true
}

// urgentOperation reports whether the operation must be written immediately, because its time is needed after a restart: the
// time of a failure is the start of the back-off, and the time at which the wait for volumes started limits that wait.
func urgentOperation(o *v1alpha1.LastOperation) bool {
	return o != nil && (ptr.Deref(o.State, "") == v1alpha1.OperationFailed || ptr.Deref(o.Description, "") == lifecycle.ReasonDetaching)
}

// urgentConditions returns the stored conditions, changed only where the change is urgent.
func urgentConditions(stored, now *v1alpha1.Machine) []v1alpha1.MachineCondition {
	out := slices.Clone(stored.Status.Conditions)
	for _, c := range now.Status.Conditions {
		i := slices.IndexFunc(out, func(have v1alpha1.MachineCondition) bool { return have.Type == c.Type })
		switch {
		case i >= 0 && (equality.Semantic.DeepEqual(out[i], c) || !urgentCondition(&out[i], &c, now)):
		case i >= 0:
			out[i] = c
		case urgentCondition(&v1alpha1.MachineCondition{Status: corev1.ConditionFalse}, &c, now):
			out = append(out, c)
		}
	}
	return out
}

// urgentCondition reports whether the change of one condition must be written immediately. A condition that is not stored
// counts as False without a reason.
func urgentCondition(was, is *v1alpha1.MachineCondition, m *v1alpha1.Machine) bool {
	deleting := m.DeletionTimestamp != nil
	switch is.Type {
	case v1alpha1.ConditionReady:
		passing := was.Reason == is.Reason || slices.Contains(passingReadyReasons, is.Reason)
		return !deleting && (was.Status != is.Status || !passing)
	case v1alpha1.ConditionServerReady:
		return !deleting && !slices.Contains(passingServerStates, is.Reason)
	case v1alpha1.ConditionSpecValid:
		return is.Status != corev1.ConditionTrue
	case v1alpha1.ConditionWarnings:
		return false
	case v1alpha1.ConditionDeleting:
		return !slices.Contains(passingDeletionSteps, is.Reason) || strings.HasPrefix(is.Message, BlockedPrefix) && held(was.Message) != held(is.Message)
	}
	return true
}

// passingReadyReasons are the reasons of condition Ready that are usual before the first start of the Node is complete.
var passingReadyReasons = []string{lifecycle.ReasonNoServer, lifecycle.ReasonNotSynced, lifecycle.ReasonServerBuilding, lifecycle.ReasonServerDeleting, lifecycle.ReasonWaitingForNode, lifecycle.ReasonNodeStarting, lifecycle.ReasonFactsUnread}

// passingServerStates are the reasons of condition ServerReady that every server has while it is created and deleted.
var passingServerStates = []string{lifecycle.ReasonNoServer, lifecycle.ReasonServerBuilding, lifecycle.ReasonServerActive, lifecycle.ReasonServerDeleting}

// passingDeletionSteps are the reasons of condition Deleting for steps that a new leader can derive again from the resources
// that are left.
var passingDeletionSteps = []string{lifecycle.ReasonDraining, lifecycle.ReasonDeletingServer, lifecycle.ReasonReleasing, lifecycle.ReasonDeletingNode, lifecycle.ReasonNotSynced, lifecycle.ReasonFactsUnread}
