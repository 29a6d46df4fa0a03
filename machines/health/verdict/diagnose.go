package verdict

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons of condition Healthy, and of Events and metrics about replaced Machines.
const (
	reasonNodeNotReady = "NodeNotReady"
	reasonNodeBad      = "NodeCondition"
	reasonNodeMissing  = "NodeMissing"
	reasonNotStarted   = "NodeNotStarted"
	reasonServer       = "ServerWontStart"
	reasonAsked        = "ReplacementAskedFor"
	reasonWell         = "NodeHealthy"
)

// Reasons that the Machine controller writes into conditions, and that the diagnosis reads.
const (
	serverWontStart = "ServerWontStart"
	serverBusy      = "ServerBusy"
	serverGone      = "ServerGone"
	nodeMissing     = "NodeMissing"
)

// serverLives are the reasons that show, while the status of condition ServerReady is not True, that the server exists
// nevertheless.
var serverLives = map[string]bool{"ServerNotActive": true, "ServerError": true, serverWontStart: true}

// Finding is the diagnosis of one Machine and its Node, without regard to other Machines.
type Finding struct {
	// Counted reports whether the Machine is counted, as healthy or as unhealthy. A Machine is not counted while it is
	// starting, being deleted, or exempt from repair.
	Counted bool
	// Unhealthy reports whether the Machine has a problem. Reason names the problem, Trouble describes it, and Since is when
	// it began.
	Unhealthy bool
	Reason    string
	Trouble   string
	Since     time.Time
	// Asked reports whether an annotation requests the replacement of the Machine.
	Asked bool

	// started reports whether the first start was complete. absent reports whether the Node is missing although the server is
	// not gone; it is false for a Machine that is exempt from repair. atOnce reports whether the Machine may be replaced without
	// waiting for its timeout.
	started, absent, atOnce bool
	// startsUntil is when a Machine whose Node is starting becomes unhealthy; zero for other Machines.
	startsUntil time.Time
}

// look returns the diagnosis of a Machine. A Machine counts neither as healthy nor as unhealthy while its Node is starting and the
// start timeout has not ended, when it is being deleted, paused or opted out, or when its server is being moved or rescued.
func (w *World) look(m *Machine) Finding {
	if m.DeletionTimestamp != nil || m.Aside || v1alpha1.Paused(m.Annotations) {
		return Finding{}
	}
	f := w.diagnose(m)
	skipped := optedOut(m)
	f.Counted, f.absent = f.Counted && !skipped, f.absent && !skipped
	f.Asked = asked(m.Machine) && !skipped
	return f
}

// diagnose returns the diagnosis of a Machine from its conditions and its Node. It ignores annotations.
func (w *World) diagnose(m *Machine) Finding {
	ref, server := m.Status.NodeRef, m.Condition(v1alpha1.ConditionServerReady)
	f := Finding{started: hasStarted(m.Machine)}
	f.absent = f.started && m.Node == nil && server.Reason != serverGone
	switch {
	case server.Reason == serverBusy:
		return f
	case !f.started:
		w.diagnoseStart(m, server, &f)
		return f
	case server.Reason == serverWontStart && server.Status == corev1.ConditionFalse && !isReady(m.Node):
		f.atOnce = true
		f.add(reasonServer, "its server does not start", w.since(m, server.LastTransitionTime))
	case m.Node == nil:
		w.diagnoseMissing(m, server, &f)
		return f
	case ref.UID != "" && ref.UID != m.Node.UID || ofAnother(m):
		return f
	default:
		w.diagnoseNode(m, &f)
	}
	f.Counted = true
	return f
}

// diagnoseMissing diagnoses a Machine whose Node is missing. The Machine is unhealthy if its server exists and the Machine
// controller has not found the Node by a live read either.
func (w *World) diagnoseMissing(m *Machine, server *v1alpha1.MachineCondition, f *Finding) {
	ready := m.Condition(v1alpha1.ConditionReady)
	if !isMissing(ready, server) {
		return
	}
	f.Counted = true
	f.add(reasonNodeMissing, fmt.Sprintf("its Node %s is missing although its server exists", m.Status.NodeRef.Name), w.since(m, ready.LastTransitionTime))
}

// isMissing reports whether the conditions Ready and ServerReady show that a Node is missing although its server exists.
func isMissing(ready, server *v1alpha1.MachineCondition) bool {
	return ready.Reason == nodeMissing && (server.Status == corev1.ConditionTrue || serverLives[server.Reason])
}

// diagnoseStart diagnoses a Machine whose Node has registered, for the first time or again, and has not completed its first
// start. It is unhealthy when the start timeout has ended: no other part of drover looks after it.
func (w *World) diagnoseStart(m *Machine, server *v1alpha1.MachineCondition, f *Finding) {
	if m.Starting.IsZero() || w.Settings.StartTimeout <= 0 {
		return
	}
	began := m.Starting
	if began.Before(w.Began) {
		began = w.Began
	}
	f.startsUntil = began.Add(w.Settings.StartTimeout)
	switch ref := m.Status.NodeRef; {
	case f.startsUntil.After(w.Now):
		return
	case m.Node == nil && !isMissing(m.Condition(v1alpha1.ConditionReady), server):
		return
	case m.Node != nil && (ref.UID != "" && ref.UID != m.Node.UID || ofAnother(m)):
		return
	}
	f.Counted, f.atOnce = true, true
	f.add(reasonNotStarted, fmt.Sprintf("its Node %s has not completed its first start within %v (condition Ready of the Machine names what is missing)", m.Status.NodeRef.Name, w.Settings.StartTimeout), f.startsUntil)
}

// IsStarting reports whether the Machine's Node has registered and has not completed its first start.
func IsStarting(m *v1alpha1.Machine) bool {
	return m.Status.NodeRef != nil && m.DeletionTimestamp == nil && !hasStarted(m)
}

// diagnoseNode checks the conditions of the Node. A condition with status Unknown counts as unhealthy. An absent condition
// does not, except Ready.
func (w *World) diagnoseNode(m *Machine, f *Finding) {
	reported := false
	for i := range m.Node.Status.Conditions {
		c := &m.Node.Status.Conditions[i]
		switch {
		case c.Type == corev1.NodeReady:
			reported = true
			if c.Status != corev1.ConditionTrue {
				f.add(reasonNodeNotReady, describe(c), w.since(m, &c.LastTransitionTime))
			}
		case c.Status != corev1.ConditionFalse && w.Settings.watches(c.Type):
			f.add(reasonNodeBad, describe(c), w.since(m, &c.LastTransitionTime))
		}
	}
	if !reported {
		f.add(reasonNodeNotReady, "its Node reports no condition Ready", w.since(m, nil))
	}
	if f.Unhealthy {
		f.Trouble = "Node " + m.Node.Name + ": " + f.Trouble
	}
}

// add adds a problem to the finding. Reason and Since come from the oldest problem; of two equally old problems, from the first.
// Trouble describes all problems.
func (f *Finding) add(reason, text string, since time.Time) {
	if !f.Unhealthy || since.Before(f.Since) {
		f.Reason, f.Since = reason, since
	}
	if f.Unhealthy {
		text = f.Trouble + ", " + text
	}
	f.Unhealthy, f.Trouble = true, text
}

// maxWord limits the length of a condition's reason in messages, in bytes. A reason is shown only if it is a single word,
// because any kubelet can write it.
const maxWord = 64

var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// describe describes a condition without its message, because some kubelets change the message every few seconds.
func describe(c *corev1.NodeCondition) string {
	text := fmt.Sprintf("condition %s is %s", c.Type, c.Status)
	if word.MatchString(c.Reason) {
		text += " (" + c.Reason[:min(len(c.Reason), maxWord)] + ")"
	}
	return text
}

// since returns the time from which a problem counts: the transition of the condition, but no earlier than when this process
// first saw that the Machine is unhealthy, and no earlier than when the snapshots became trustworthy. A transition in the
// future is ignored.
func (w *World) since(m *Machine, transition *metav1.Time) time.Time {
	at := m.Noticed
	if at.IsZero() {
		at = w.Now
	}
	if transition != nil && transition.After(at) && !transition.After(w.Now) {
		at = transition.Time
	}
	if at.Before(w.Began) {
		at = w.Began
	}
	return at
}

func (s *Settings) watches(name corev1.NodeConditionType) bool {
	for _, c := range s.Conditions {
		if c == name {
			return true
		}
	}
	return false
}

// hasStarted reports whether the Machine has a Node and its first start was completed.
func hasStarted(m *v1alpha1.Machine) bool {
	if m.Status.NodeRef == nil {
		return false
	}
	marks := m.Status.NodeMarks
	return marks != nil && marks.Started || ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning
}

// ofAnother reports whether the Machine's Node names another Machine as its owner.
func ofAnother(m *Machine) bool {
	owner := v1alpha1.NodeOwner(m.Node.Labels, m.Node.Annotations)
	return owner != "" && owner != string(m.UID)
}

// isReady reports whether the Node exists and is Ready.
func isReady(n *corev1.Node) bool {
	return n != nil && v1alpha1.NodeReady(n).Status == corev1.ConditionTrue
}

func optedOut(m *Machine) bool {
	return v1alpha1.SkipsHealth(m.Annotations) || m.Group != nil && v1alpha1.SkipsHealth(m.Group.Annotations)
}

func asked(m *v1alpha1.Machine) bool {
	_, capi := m.Annotations[v1alpha1.AnnotationReplaceCAPI]
	return capi || strings.EqualFold(m.Annotations[v1alpha1.AnnotationReplace], "true")
}
