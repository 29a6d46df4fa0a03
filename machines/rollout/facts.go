package rollout

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// MachineFacts is a Machine and what was observed of its Node.
type MachineFacts struct {
	Machine *v1alpha1.Machine
	// NodeReady is true when the Node is registered and its Ready condition is True.
	NodeReady bool
	// Available is true when the Node has been Ready for the deployment's minReadySeconds, and health finds nothing wrong with it.
	Available bool
	// NodeRegistered is true when a Node of this Machine exists, even if the Machine's status does not name the Node yet.
	NodeRegistered bool
	// Listed is true when a list of removals of the set or deployment names the Machine.
	Listed bool
}

// Living reports whether the Machine counts towards sizes: it is neither being deleted nor named for removal.
func (f MachineFacts) Living() bool {
	return f.Machine.DeletionTimestamp.IsZero() && !f.Listed
}

// HasNode reports whether a Node of this Machine has registered.
func (f MachineFacts) HasNode() bool {
	return f.NodeRegistered || f.NodeReady || f.Machine.Status.NodeRef != nil
}

// HasServer reports whether the cloud has, or may still have, a server of this Machine: a server was recorded, and the Machine's
// finalizer for servers has not been removed.
func (f MachineFacts) HasServer() bool {
	m := f.Machine
	if !m.DeletionTimestamp.IsZero() && !slices.Contains(m.Finalizers, v1alpha1.FinalizerServer) {
		return false
	}
	if m.Spec.ProviderID != nil && *m.Spec.ProviderID != "" || m.Status.NodeRef != nil {
		return true
	}
	return slices.Contains([]v1alpha1.MachinePhase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseJoined, v1alpha1.PhaseRunning}, ptr.Deref(m.Status.Phase, ""))
}

func hasServer(m *v1alpha1.Machine) bool { return MachineFacts{Machine: m}.HasServer() }

// Failed reports whether the Machine has an error that waiting alone does not resolve.
func (f MachineFacts) Failed() bool {
	s := f.Machine.Status
	return s.ErrorReason != nil && *s.ErrorReason != "" || s.Phase != nil && *s.Phase == v1alpha1.PhaseFailed
}

// Facts returns the facts from a Machine's own status, whose Ready condition follows the Node's. minReadySeconds is how long the Machine
// must have been Ready to be available.
func Facts(m *v1alpha1.Machine, minReadySeconds int32, now time.Time) MachineFacts {
	f := MachineFacts{Machine: m}
	since, ready := ReadySince(m)
	if !ready || m.Status.NodeRef == nil {
		return f
	}
	f.NodeReady = true
	f.Available = !unhealthy(m) && (minReadySeconds <= 0 || !since.IsZero() && !now.Before(since.Add(seconds(minReadySeconds))))
	return f
}

// unhealthy reports whether health finds the Machine unhealthy. A Node may be Ready although one of its other conditions shows that it does
// not work: a rollout that counted it would replace each working Node by such a one.
func unhealthy(m *v1alpha1.Machine) bool {
	return m.Condition(v1alpha1.ConditionHealthy).Status == corev1.ConditionFalse
}

// AvailableAfter returns how long it takes from now until a Ready Machine is available. It returns 0 when the Machine is available or not
// Ready.
func AvailableAfter(m *v1alpha1.Machine, minReadySeconds int32, now time.Time) time.Duration {
	since, ready := ReadySince(m)
	if !ready || since.IsZero() || minReadySeconds <= 0 {
		return 0
	}
	return max(0, since.Add(seconds(minReadySeconds)).Sub(now))
}

// ReadySince reports whether the Machine's Node is Ready. The time is when the Node became Ready; it is zero when that is unknown.
func ReadySince(m *v1alpha1.Machine) (time.Time, bool) {
	c := m.Condition(v1alpha1.ConditionReady)
	if c.Status != corev1.ConditionTrue || c.LastTransitionTime == nil {
		return time.Time{}, c.Status == corev1.ConditionTrue
	}
	return c.LastTransitionTime.Time, true
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

func uidsOf(removals []v1alpha1.Removal) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(removals))
	for _, r := range removals {
		uids[r.UID] = true
	}
	return uids
}
