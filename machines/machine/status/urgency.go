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

// BlockedPrefix begins the message of condition Deleting while evictions are refused.
const BlockedPrefix = "evictions are refused: "

const (
	// LongestUnwritten is how long a change that is not urgent may wait for another write to go with. It keeps what people
	// see no more than half a minute behind.
	LongestUnwritten = 25 * time.Second
	// longestBeforeNode is that of a Machine without a Node: most servers become Nodes within that time of becoming ACTIVE, so
	// that both are one write.
	longestBeforeNode = 90 * time.Second
)

// MaxDelay returns how long a change of the Machine that is not urgent may stay unwritten.
func MaxDelay(m *v1alpha1.Machine) time.Duration {
	if m.DeletionTimestamp == nil && m.Status.NodeRef == nil {
		return longestBeforeNode
	}
	return LongestUnwritten
}

// Urgent reports whether a Machine as it is now must be written at once, given how it is stored. What is not urgent goes
// with the next write that is due, and is written by itself after [MaxDelay].
//
// Every difference is urgent but those that only people read, and that a later reconcile finds again in the cloud or at the Node:
// zone, host, ports, floating IP, the kubelet's version, that the server became ACTIVE, warnings, and the steps of a
// deletion that has nothing to remember. So the finalizers, spec.providerID, status.nodeRef, errors, volumes, group
// back-offs, the console and a change of the status of condition Ready are urgent: a successor of this process, other
// controllers, the approver of certificates and the node groups read them. Addresses are urgent once there is a Node,
// because the approver compares its serving certificate with them.
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

// urgentPhase reports whether somebody waits for that phase. The others only follow from what is urgent or shown elsewhere.
func urgentPhase(phase v1alpha1.MachinePhase) bool {
	switch phase {
	case v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseDeleting:
		return false
	}
	return true
}

// urgentOperation reports whether the time of an operation is remembered: that of a failure times the back-off after a
// restart, that of the wait for volumes ends the wait.
func urgentOperation(o *v1alpha1.LastOperation) bool {
	return o != nil && (ptr.Deref(o.State, "") == v1alpha1.OperationFailed || ptr.Deref(o.Description, "") == lifecycle.ReasonDetaching)
}

// urgentConditions returns the conditions that are stored, with those changes only that are urgent.
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

// urgentCondition reports whether a change of one condition must be written at once. One that is not stored counts as False
// without a reason.
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
		return !slices.Contains(passingDeletionSteps, is.Reason) || strings.HasPrefix(is.Message, BlockedPrefix)
	}
	return true
}

// passingReadyReasons are those of condition Ready that each Machine has on its way to a Node.
var passingReadyReasons = []string{lifecycle.ReasonNoServer, lifecycle.ReasonNotSynced, lifecycle.ReasonServerBuilding, lifecycle.ReasonServerDeleting, lifecycle.ReasonWaitingForNode, lifecycle.ReasonNodeStarting}

// passingServerStates are what each server goes through on its way, as reasons of condition ServerReady.
var passingServerStates = []string{lifecycle.ReasonNoServer, lifecycle.ReasonServerBuilding, lifecycle.ReasonServerActive, lifecycle.ReasonServerDeleting}

// passingDeletionSteps are the steps of a deletion, as reasons of condition Deleting, after which a successor looks again
// and finds what there is left to do.
var passingDeletionSteps = []string{lifecycle.ReasonDraining, lifecycle.ReasonDeletingServer, lifecycle.ReasonReleasing, lifecycle.ReasonDeletingNode, lifecycle.ReasonNotSynced}
