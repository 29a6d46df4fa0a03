package verdict

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// makeTime is the longest expected time from the deletion of a Machine until its successor has a server. The set controller
// and the cloud need this time.
const makeTime = 2 * time.Minute

// timeoutOf returns how long a Machine may be unhealthy before it is replaced. 0 means that it is never replaced for being
// unhealthy. The first annotation that can be parsed counts.
func (s *Settings) timeoutOf(annotations ...map[string]string) time.Duration {
	for _, a := range annotations {
		text := a[v1alpha1.AnnotationHealthTimeout]
		if strings.EqualFold(text, "never") {
			return 0
		}
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			return d
		}
	}
	return s.Timeout
}

// mostOf returns how many Machines of the group may be replaced at the same time; at least one.
func (s *Settings) mostOf(g *Group) int {
	for _, value := range []intstr.IntOrString{intstr.Parse(g.GetAnnotations()[v1alpha1.AnnotationHealthMaxReplacing]), s.MaxReplacing} {
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
	d, err := time.ParseDuration(g.GetAnnotations()[v1alpha1.AnnotationJoinTimeout])
	if err == nil && d > 0 {
		return d
	}
	return s.Join
}

// running returns the replacements of a group that have not ended yet, and those that have ended and are still recorded. A replacement
// ends when its Machine has recovered or is gone, and no further successor is expected. It also ends when the time for a successor is over,
// so that one stuck Machine does not block the repair of all others. up is how many Machines of the group have started. If the clock of an
// earlier leader recorded a start in the future, the present time is used as the start.
func (j *judgement) running(g *Group, up int) (running, ended []v1alpha1.HealthReplacement) {
	coming := max(g.Size, g.Wanted) - up
	for _, e := range slices.Backward(g.Replacements) {
		if e.Started.After(j.w.Now) {
			e.Started = wholeSeconds(j.w.Now)
		}
		open := j.open[e.UID]
		end := e.Started.Add(j.w.Settings.joinOf(g) + makeTime)
		if !j.w.Now.Before(end) || !open && coming <= 0 {
			ended, j.began[e.UID] = slices.Insert(ended, 0, e), time.Time{}
			continue
		}
		if !open {
			coming--
		}
		j.lookAt(end)
		running, j.began[e.UID] = slices.Insert(running, 0, e), e.Started.Time
	}
	return running, ended
}

// Record adds the replacement of the Machine to the replacements that the status of the group must show, unless it has begun already. When
// the status is full, the oldest replacement that has ended goes.
func (p *GroupPlan) Record(v *Verdict, now time.Time) {
	if !v.began.IsZero() {
		return
	}
	p.Replacements = slices.DeleteFunc(p.Replacements, func(e v1alpha1.HealthReplacement) bool { return e.UID == v.Machine.UID })
	if len(p.Replacements) >= v1alpha1.MaxHealthReplacements {
		p.Replacements = p.Replacements[1:]
	}
	p.Replacements = append(p.Replacements, v1alpha1.HealthReplacement{Name: v.Machine.Name, UID: v.Machine.UID, Started: wholeSeconds(now), Attempt: v.attempt})
}

// wholeSeconds cuts a time to the precision of the API server.
func wholeSeconds(at time.Time) metav1.Time { return new(metav1.NewTime(at)).Rfc3339Copy() }

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
	return !w.Now.Before(e.Started.Add(max(leastRemembered, 2*pauseAfter(e, w.Settings.timeoutOf(g.GetAnnotations())))))
}

// attempt returns which attempt the replacement of the Machine is, and the earliest time for it. The first attempt need not wait. A Machine
// that was created after an earlier replacement in its group, and is unhealthy nevertheless, shows that the replacement did not help: its
// own is a further attempt, and waits longer each time. The clock of the API server may differ from drover's: this changes which Machines
// count as created later, and so only how long they wait.
func (w *World) attempt(m *Machine, timeout time.Duration) (number int32, earliest time.Time) {
	for i := range m.Group.Replacements {
		e := &m.Group.Replacements[i]
		// Both times are whole seconds, and a set creates the successor at once.
		if m.CreationTimestamp.Before(&e.Started) || w.forgotten(m.Group, e) {
			continue
		}
		number = max(number, e.Attempt, 1)
		if at := e.Started.Add(pauseAfter(e, timeout)); at.After(earliest) {
			earliest = at
		}
	}
	return number + 1, earliest
}
