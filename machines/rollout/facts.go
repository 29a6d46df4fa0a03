package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// MachineFacts is a Machine and what was observed of its node.
type MachineFacts struct {
	Machine *v1alpha1.Machine
	// NodeReady: the Node is registered and its Ready condition is True.
	NodeReady bool
	// Available: the Node has been Ready for the deployment's minReadySeconds.
	Available bool
	// NodeRegistered: a Node of this Machine is known although the Machine's status may not name it yet.
	NodeRegistered bool
	// Listed: the Machine is named in a list of removals of its set or deployment.
	Listed bool
}

// Living reports whether the Machine counts: it is neither deleting nor listed for removal.
func (f MachineFacts) Living() bool {
	return f.Machine.DeletionTimestamp.IsZero() && !f.Listed
}

// HasNode reports whether a Node of this Machine has registered.
func (f MachineFacts) HasNode() bool {
	return f.NodeRegistered || f.NodeReady || f.Machine.Status.NodeRef != nil
}

// HasServer reports whether the cloud holds, or may still hold, a server of this Machine: one was recorded and the finalizer
// that stands for it is still there.
func (f MachineFacts) HasServer() bool {
	m := f.Machine
	if !m.DeletionTimestamp.IsZero() && !hasFinalizer(m, v1alpha1.FinalizerServer) {
		return false
	}
	if m.Spec.ProviderID != nil && *m.Spec.ProviderID != "" || m.Status.NodeRef != nil {
		return true
	}
	if m.Status.Phase == nil {
		return false
	}
	switch *m.Status.Phase {
	case v1alpha1.PhaseProvisioning, v1alpha1.PhaseJoined, v1alpha1.PhaseRunning:
		return true
	}
	return false
}

// Failed reports whether the Machine has an error that waiting alone will not cure.
func (f MachineFacts) Failed() bool {
	s := f.Machine.Status
	return s.ErrorReason != nil && *s.ErrorReason != "" || s.Phase != nil && *s.Phase == v1alpha1.PhaseFailed
}

// Facts reads a Machine's own status: its Ready condition follows the Node's. minReadySeconds is how long it must have
// been Ready to be available.
func Facts(m *v1alpha1.Machine, minReadySeconds int32, now time.Time) MachineFacts {
	f := MachineFacts{Machine: m}
	since, ready := ReadySince(m)
	if !ready || m.Status.NodeRef == nil {
		return f
	}
	f.NodeReady = true
	f.Available = minReadySeconds <= 0 || !since.IsZero() && !now.Before(since.Add(seconds(minReadySeconds)))
	return f
}

// AvailableAfter is how long from now it takes until a Ready Machine is available; 0 when it is so already or is not
// Ready.
func AvailableAfter(m *v1alpha1.Machine, minReadySeconds int32, now time.Time) time.Duration {
	since, ready := ReadySince(m)
	if !ready || since.IsZero() || minReadySeconds <= 0 {
		return 0
	}
	return max(0, since.Add(seconds(minReadySeconds)).Sub(now))
}

// ReadySince says whether the Machine's Node is Ready, and since when (the zero time when that is not known).
func ReadySince(m *v1alpha1.Machine) (time.Time, bool) {
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		if c.Type != v1alpha1.ConditionReady || c.Status != corev1.ConditionTrue {
			continue
		}
		if c.LastTransitionTime == nil {
			return time.Time{}, true
		}
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

func hasFinalizer(m *v1alpha1.Machine, name string) bool {
	for _, f := range m.Finalizers {
		if f == name {
			return true
		}
	}
	return false
}

func uidsOf(removals []v1alpha1.Removal) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(removals))
	for _, r := range removals {
		uids[r.UID] = true
	}
	return uids
}
