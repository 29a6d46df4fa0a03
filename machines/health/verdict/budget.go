package verdict

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// makeTime is the longest expected time from the deletion of a Machine until its successor has a server. The set controller
// and the cloud need this time.
const makeTime = 2 * time.Minute

// timeoutOf returns how long the Machine may be unhealthy before it is replaced. 0 means that it is never replaced for being
// unhealthy. Annotations that cannot be parsed are ignored.
func (s *Settings) timeoutOf(m *Machine) time.Duration {
	if d, ok := readTimeout(m.Annotations); ok {
		return d
	}
	if m.Group != nil {
		if d, ok := readTimeout(m.Group.Annotations); ok {
			return d
		}
	}
	return s.Timeout
}

func readTimeout(annotations map[string]string) (time.Duration, bool) {
	text, ok := annotations[v1alpha1.AnnotationHealthTimeout]
	if !ok {
		return 0, false
	}
	if strings.EqualFold(text, "never") {
		return 0, true
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// mostOf returns how many Machines of the group may be replaced at the same time; at least one.
func (s *Settings) mostOf(g *Group) int {
	for _, value := range []intstr.IntOrString{intstr.Parse(g.Annotations[v1alpha1.AnnotationHealthMaxReplacing]), s.MaxReplacing} {
		if n, err := Most(value, g.Size); err == nil {
			return n
		}
	}
	return 1
}

// Most resolves a number, or a percentage of a size. The result is rounded up, and is at least one and at most
// [v1alpha1.MaxHealthReplacements]. Most returns an error when the value is neither a number nor a percentage.
func Most(value intstr.IntOrString, size int) (int, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, size, true)
	if err != nil {
		return 0, err
	}
	return max(1, min(n, v1alpha1.MaxHealthReplacements)), nil
}

// joinOf returns how long a successor in the group may take to become a Node.
func (s *Settings) joinOf(g *Group) time.Duration {
	d, err := time.ParseDuration(g.Annotations[v1alpha1.AnnotationJoinTimeout])
	if err == nil && d > 0 {
		return d
	}
	return s.Join
}

// whereabouts is the state of a Machine whose replacement has started.
type whereabouts struct {
	verdict *Verdict // nil when the Machine is healthy or being deleted
	leaving bool
}

// running returns the replacements of a group that have not ended yet, and those that have ended and are still recorded. A replacement
// ends when its Machine has recovered, or when the Machine is gone and no further successor is expected. It also ends when the time for a
// successor is over, so that one stuck Machine does not block the repair of all others. If the clock of an earlier leader recorded a start
// in the future, the present time is used as the start.
func (j *judgement) running(g *Group) (entries, ended []v1alpha1.HealthReplacement) {
	coming := max(0, g.Size-j.up[g])
	for i := len(g.Replacements) - 1; i >= 0; i-- {
		e := g.Replacements[i]
		if e.Started.After(j.w.Now) {
			e.Started = metav1.NewTime(j.w.Now)
		}
		at, there := j.recorded[e.UID]
		switch end := e.Started.Add(j.w.Settings.joinOf(g) + makeTime); {
		case there && !at.leaving && at.verdict == nil:
		case j.w.Now.Before(end) && (there || coming > 0):
			if !there {
				coming--
			}
			j.lookAt(end)
			entries = append(entries, e)
		default:
			ended = append(ended, e)
		}
	}
	slices.Reverse(entries)
	slices.Reverse(ended)
	return entries, ended
}

const (
	// leastRemembered is the shortest time for which the record of a replacement counts.
	leastRemembered = time.Hour
	// longestPause bounds how long the replacement of a successor waits after the replacement before it.
	longestPause = 2 * time.Hour
)

// pauseAfter returns how long the replacement of a successor waits after the replacement e: twice the health timeout, and twice as long
// with each attempt that did not help.
func pauseAfter(e *v1alpha1.HealthReplacement, timeout time.Duration) time.Duration {
	return min(longestPause, min(longestPause, timeout)<<min(max(1, e.Attempt), 10))
}

// forgotten reports whether the record of a replacement no longer delays other replacements. It counts twice as long as the pause after it.
func (w *World) forgotten(g *Group, e *v1alpha1.HealthReplacement) bool {
	timeout := w.Settings.timeoutOf(&Machine{Machine: &v1alpha1.Machine{}, Group: g})
	return !w.Now.Before(e.Started.Add(max(leastRemembered, 2*pauseAfter(e, timeout))))
}

// attempt returns which attempt the replacement of the Machine is, and the earliest time for it. The first attempt need not wait. A Machine
// that was created after an earlier replacement in its group, and is unhealthy nevertheless, shows that the replacement did not help: its
// own is a further attempt, and waits longer each time. The clock of the API server may differ from drover's: this changes which Machines
// count as created later, and so only how long they wait.
func (w *World) attempt(m *Machine) (number int32, earliest time.Time) {
	if m.Group == nil {
		return 1, time.Time{}
	}
	for i := range m.Group.Replacements {
		e := &m.Group.Replacements[i]
		if !e.Started.Before(&m.CreationTimestamp) || w.forgotten(m.Group, e) {
			continue
		}
		number = max(number, e.Attempt, 1)
		if at := e.Started.Add(pauseAfter(e, w.Settings.timeoutOf(m))); at.After(earliest) {
			earliest = at
		}
	}
	return number + 1, earliest
}

// incident is the unit in which the replacements of a group are counted: one Machine, or all Machines of one failed host.
type incident string

func incidentOf(uid types.UID, host string) incident {
	if host != "" {
		return incident("host " + host)
	}
	return incident("machine " + string(uid))
}

// budget tracks how many more Machines of a group may be replaced now.
type budget struct {
	group   *Group
	most    int
	entries []v1alpha1.HealthReplacement
	begun   map[types.UID]bool
	open    map[incident]bool
}

func newBudget(g *Group, most int, entries []v1alpha1.HealthReplacement) *budget {
	b := &budget{group: g, most: most, entries: entries, begun: map[types.UID]bool{}, open: map[incident]bool{}}
	for _, e := range entries {
		b.begun[e.UID] = true
		b.open[incidentOf(e.UID, e.Host)] = true
	}
	return b
}

// take reports whether the Machine may be replaced now, and if so records the replacement. A replacement that was started
// earlier may always continue. All Machines of one failed host count as one replacement.
func (b *budget) take(v *Verdict, hostFailed bool, now time.Time) bool {
	if b.begun[v.Machine.UID] {
		return true
	}
	host := ""
	if v.host != "" && (hostFailed || b.open[incidentOf("", v.host)]) {
		host = v.host
	}
	of := incidentOf(v.Machine.UID, host)
	if !b.open[of] && len(b.open) >= b.most || len(b.entries) >= v1alpha1.MaxHealthReplacements {
		return false
	}
	b.open[of], b.begun[v.Machine.UID] = true, true
	b.entries = append(b.entries, v1alpha1.HealthReplacement{
		Name: v.Machine.Name, UID: v.Machine.UID, Started: metav1.NewTime(now), Host: host, Attempt: v.attempt,
	})
	return true
}

// text returns, as a phrase for messages, how many Machines of the group may be replaced at the same time.
func (b *budget) text() string {
	return b.group.String() + " replaces " + strconv.Itoa(b.most) + " at a time"
}
