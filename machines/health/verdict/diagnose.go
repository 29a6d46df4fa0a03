package verdict

import (
	"fmt"
	"regexp"
	"slices"
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

// serverBusy is a reason that the Machine controller writes into condition ServerReady. It writes reasonServer and reasonNodeMissing, too.
const serverBusy = "ServerBusy"

// serverLives are the reasons that show, while the status of condition ServerReady is not True, that the server exists
// nevertheless.
var serverLives = []string{"ServerNotActive", "ServerError", reasonServer}

// Finding is the diagnosis of one Machine and its Node, without regard to other Machines.
type Finding struct {
	// Counted reports whether the Machine is counted, as healthy or as unhealthy. A Machine is not counted while it is
	// starting, being deleted, or exempt from repair.
	Counted bool
	// Unhealthy reports whether the Machine has a problem. Reason names the problem, Trouble describes it, and Since is when
	// it began, or will begin for a Machine whose Node is starting.
	Unhealthy bool
	Reason    string
	Trouble   string
	Since     time.Time
	// Asked reports whether an annotation requests the replacement of the Machine.
	Asked bool

	// started reports whether the first start was complete, and starting whether the Node has registered and it was not.
	// atOnce reports whether the Machine may be replaced without waiting for its timeout.
	started, starting, atOnce bool
}

// look returns the diagnosis of a Machine. A Machine counts neither as healthy nor as unhealthy while its Node is starting and the
// start timeout has not ended, when it is being deleted, paused or opted out, or when its server is being moved or rescued.
func (w *World) look(m *Machine) Finding {
	if m.DeletionTimestamp != nil || m.Aside || v1alpha1.Paused(m.Annotations) {
		return Finding{}
	}
	f := w.diagnose(m)
	if optedOut(m) {
		f.Counted = false
		return f
	}
	_, capi := m.Annotations[v1alpha1.AnnotationReplaceCAPI]
	f.Asked = capi || strings.EqualFold(m.Annotations[v1alpha1.AnnotationReplace], "true")
	return f
}

// diagnose returns the diagnosis of a Machine from its conditions and its Node. It ignores annotations.
func (w *World) diagnose(m *Machine) Finding {
	f := Finding{started: hasStarted(m.Machine)}
	f.starting = m.Status.NodeRef != nil && !f.started
	server := m.Condition(v1alpha1.ConditionServerReady)
	switch {
	case server.Reason == serverBusy || !f.started && !f.starting:
		return f
	case f.started && wontStart(m):
		f.atOnce = true
		f.add(reasonServer, "its server does not start", w.since(m, server.LastTransitionTime))
	case m.Node == nil && !isMissing(m) || m.Node != nil && isOthers(m):
		return f
	case f.starting:
		w.diagnoseStart(m, &f)
		return f
	case m.Node == nil:
		f.add(reasonNodeMissing, fmt.Sprintf("its Node %s is missing although its server exists", m.Status.NodeRef.Name), w.since(m, m.Condition(v1alpha1.ConditionReady).LastTransitionTime))
	default:
		w.diagnoseNode(m, &f)
	}
	f.Counted = true
	return f
}

// wontStart reports whether the Machine's server does not start, and its Node is not Ready either.
func wontStart(m *Machine) bool {
	server := m.Condition(v1alpha1.ConditionServerReady)
	return server.Reason == reasonServer && server.Status == corev1.ConditionFalse && (m.Node == nil || v1alpha1.NodeReady(m.Node).Status != corev1.ConditionTrue)
}

// isMissing reports whether the Machine controller has found by a live read that a Machine has no Node, although its server exists.
func isMissing(m *Machine) bool {
	server := m.Condition(v1alpha1.ConditionServerReady)
	return m.Condition(v1alpha1.ConditionReady).Reason == reasonNodeMissing && (server.Status == corev1.ConditionTrue || slices.Contains(serverLives, server.Reason))
}

// isOthers reports whether the Machine's Node is a later Node with the same name, or one whose owner is another Machine.
func isOthers(m *Machine) bool {
	owner := v1alpha1.NodeOwner(m.Node.Labels, m.Node.Annotations)
	return m.Status.NodeRef.UID != "" && m.Status.NodeRef.UID != m.Node.UID || owner != "" && owner != string(m.UID)
}

// diagnoseStart diagnoses a Machine whose Node has registered, for the first time or again, and has not completed its first
// start. It is unhealthy when the start timeout has ended: no other part of drover looks after it.
func (w *World) diagnoseStart(m *Machine, f *Finding) {
	f.Since = w.seen(m, starting).Add(w.Settings.StartTimeout)
	if w.Settings.StartTimeout <= 0 || f.Since.After(w.Now) {
		return
	}
	f.Counted, f.atOnce = true, true
	f.add(reasonNotStarted, fmt.Sprintf("its Node %s has not completed its first start within %v (condition Ready of the Machine names what is missing)", m.Status.NodeRef.Name, w.Settings.StartTimeout), f.Since)
}

// diagnoseNode checks the conditions of the Node. A condition with status Unknown counts as unhealthy. An absent condition
// does not, except Ready.
func (w *World) diagnoseNode(m *Machine, f *Finding) {
	switch ready := v1alpha1.NodeReady(m.Node); ready.Status {
	case corev1.ConditionTrue:
	case "":
		f.add(reasonNodeNotReady, "its Node reports no condition Ready", w.since(m, nil))
	default:
		f.add(reasonNodeNotReady, describe(&ready), w.since(m, &ready.LastTransitionTime))
	}
	for i := range m.Node.Status.Conditions {
		c := &m.Node.Status.Conditions[i]
		if c.Type != corev1.NodeReady && c.Status != corev1.ConditionFalse && slices.Contains(w.Settings.Conditions, c.Type) {
			f.add(reasonNodeBad, describe(c), w.since(m, &c.LastTransitionTime))
		}
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

// seen returns since when this process has seen the Machine in this state, but no time before the snapshots became trustworthy.
func (w *World) seen(m *Machine, s state) time.Time {
	at, ok := w.Seen[sighting{m.UID, s}]
	if !ok {
		at = w.Now
	}
	if at.Before(w.Began) {
		at = w.Began
	}
	return at
}

// since returns the time from which a problem counts: the transition of the condition, but no earlier than when this process
// first saw that the Machine is unhealthy. A transition in the future is ignored.
func (w *World) since(m *Machine, transition *metav1.Time) time.Time {
	at := w.seen(m, unhealthy)
	if transition != nil && transition.After(at) && !transition.After(w.Now) {
		return transition.Time
	}
	return at
}

// hasStarted reports whether the Machine has a Node and its first start was completed.
func hasStarted(m *v1alpha1.Machine) bool {
	marks := m.Status.NodeMarks
	return m.Status.NodeRef != nil && (marks != nil && marks.Started || ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning)
}

func optedOut(m *Machine) bool {
	return v1alpha1.SkipsHealth(m.Annotations) || m.Group != nil && v1alpha1.SkipsHealth(m.Group.GetAnnotations())
}
