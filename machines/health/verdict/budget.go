package verdict

import (
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

// running returns the replacements of a group that have not ended yet. A replacement ends when its Machine has recovered, or
// when the Machine is gone and no further successor is expected. It also ends when the time for a successor is over, so that
// one stuck Machine does not block the repair of all others. If the clock of an earlier leader recorded a start in the
// future, the present time is used as the start.
func (j *judgement) running(g *Group) (entries []v1alpha1.HealthReplacement) {
	coming := max(0, g.Size-j.up[g])
	for i := len(g.Replacements) - 1; i >= 0; i-- {
		e := g.Replacements[i]
		if e.Started.After(j.w.Now) {
			e.Started = metav1.NewTime(j.w.Now)
		}
		at, there := j.recorded[e.UID]
		switch end := e.Started.Add(j.w.Settings.joinOf(g) + makeTime); {
		case !j.w.Now.Before(end):
			continue
		case there && !at.leaving && at.verdict == nil:
			continue
		case !there && coming == 0:
			continue
		case !there:
			coming--
			fallthrough
		default:
			j.lookAt(end)
			entries = append(entries, e)
		}
	}
	for a, b := 0, len(entries)-1; a < b; a, b = a+1, b-1 {
		entries[a], entries[b] = entries[b], entries[a]
	}
	return entries
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
	b.entries = append(b.entries, newEntry(v, host, now))
	return true
}

// text returns, as a phrase for messages, how many Machines of the group may be replaced at the same time.
func (b *budget) text() string {
	return b.group.String() + " replaces " + strconv.Itoa(b.most) + " at a time"
}
