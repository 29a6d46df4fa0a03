package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// leastToJudge is how many Machines a group or the cluster must have before its share of unhealthy Machines is meaningful:
	// of two Machines, one is already half.
	leastToJudge = 3
	// settling is how long a Machine must be unhealthy before condition Healthy is written, so that the short restart of a
	// kubelet does not cause a write.
	settling = 10 * time.Second
	// again is the interval after which unhealthy Machines are judged again if nothing changes.
	again = time.Minute
	// leastRetry is the shortest wait before a deletion is repeated that the API server has refused.
	leastRetry = 5 * time.Second
)

// share counts the Machines of a group or of the cluster.
type share struct{ counted, unhealthy int }

func (s *share) count(f *Finding) {
	if f.Counted {
		s.counted++
	}
	if f.Counted && f.Unhealthy {
		s.unhealthy++
	}
}

// tooMany reports whether more than the given percentage of the Machines is unhealthy.
func (s *share) tooMany(percent int) bool {
	return s.counted >= leastToJudge && s.unhealthy*100 > s.counted*percent
}

// tally is what the snapshot shows of a group.
type tally struct {
	share
	// up counts the Machines whose first start is complete, without those that a rollout is replacing. The difference between
	// the group's size and this number is the number of successors that are still expected.
	up int
	// troubled holds the verdicts of Machines that are unhealthy or whose replacement is requested.
	troubled []*Verdict
}

// judgement is the state of the decision about one snapshot.
type judgement struct {
	w       *World
	plan    Plan
	cluster share
	groups  map[*Group]*tally
	// open holds the Machines that are being deleted, and those that are unhealthy or whose replacement is requested.
	open map[types.UID]bool
	// began holds the Machines whose replacement is recorded, and when it began; zero when it has ended.
	began map[types.UID]time.Time
}

// Judge decides which Machines are replaced now. It does not change the snapshot.
func Judge(w *World) Plan {
	j := &judgement{w: w, plan: Plan{Seen: Seen{}}, groups: map[*Group]*tally{nil: {}}, open: map[types.UID]bool{}, began: map[types.UID]time.Time{}}
	for _, g := range w.Groups {
		j.groups[g] = &tally{}
	}
	for i := range w.Machines {
		j.look(&w.Machines[i])
	}
	for _, v := range j.groups[nil].troubled {
		v.Brake = brakeNoOwner
	}
	for _, g := range w.Groups {
		if t := j.groups[g]; len(t.troubled) > 0 || len(g.Replacements) > 0 || g.Held != nil {
			j.judgeGroup(g, t)
		}
	}
	for _, v := range j.plan.Verdicts {
		j.show(v)
	}
	if j.plan.Unhealthy > 0 {
		j.lookAt(w.Now.Add(again))
	}
	return j.plan
}

// look diagnoses a Machine alone, and counts it.
func (j *judgement) look(m *Machine) {
	f, t := j.w.look(m), j.groups[m.Group]
	j.cluster.count(&f)
	t.count(&f)
	if f.started && !m.Outdated {
		t.up++
	}
	if f.starting {
		j.plan.Seen[sighting{m.UID, starting}] = j.w.seen(m, starting)
	} else if f.Unhealthy {
		j.plan.Seen[sighting{m.UID, unhealthy}] = j.w.seen(m, unhealthy)
	}
	if f.Since.After(j.w.Now) {
		j.lookAt(f.Since)
	}
	if f.Unhealthy || f.Asked || m.DeletionTimestamp != nil || m.Aside {
		j.open[m.UID] = true
	}
	v := &Verdict{Machine: m, Finding: f}
	switch {
	case f.Unhealthy:
		j.plan.Unhealthy++
	case f.Asked:
		v.Reason, v.Since = reasonAsked, j.w.Now
	case f.Counted && m.Condition(v1alpha1.ConditionHealthy).Status == corev1.ConditionFalse:
		v.Condition = &v1alpha1.MachineCondition{Type: v1alpha1.ConditionHealthy, Status: corev1.ConditionTrue, Reason: reasonWell}
		j.plan.Verdicts = append(j.plan.Verdicts, v)
		return
	default:
		return
	}
	t.troubled = append(t.troubled, v)
	j.plan.Verdicts = append(j.plan.Verdicts, v)
}

// judge decides when a Machine with a group is due for replacement, and which brake applies to it. judgeGroup applies the limit on
// simultaneous replacements later.
func (j *judgement) judge(v *Verdict) {
	m := v.Machine
	j.w.schedule(v)
	switch {
	case v.Asked:
	case optedOut(m):
		v.Brake = brakeOptedOut
	case m.Outdated:
		v.Brake = brakeRollout
	case v.Due.IsZero():
		v.Brake = brakeSwitchedOff
	case j.cluster.tooMany(j.w.Settings.MaxUnhealthy):
		v.Brake = brakeCluster
	case j.groups[m.Group].tooMany(j.w.Settings.MaxUnhealthy):
		v.Brake = brakeGroup
	}
	if v.Due.After(j.w.Now) {
		j.lookAt(v.Due)
	}
}

// schedule decides when a Machine may be replaced, and which attempt that is. A Machine whose replacement is requested, or that is
// unhealthy in a way that does not end on its own, does not wait for its timeout.
func (w *World) schedule(v *Verdict) {
	timeout := w.Settings.timeoutOf(v.Machine.Annotations, v.Machine.Group.GetAnnotations())
	var earliest time.Time
	v.attempt, earliest = w.attempt(v.Machine, timeout)
	switch {
	case v.Asked:
		v.Due = w.Now
		return
	case timeout == 0:
		return
	case v.atOnce:
		v.Due = v.Since
	default:
		v.Due = v.Since.Add(timeout)
	}
	if v.Due.Before(earliest) {
		v.Due = earliest
	}
}

// judgeGroup selects the Machines of a group to replace, and computes what the group's status must show.
func (j *judgement) judgeGroup(g *Group, t *tally) {
	running, ended := j.running(g, t.up)
	for _, v := range t.troubled {
		j.judge(v)
		began, known := j.began[v.Machine.UID]
		v.began = began
		switch {
		case known && began.IsZero():
			v.rank = 1 // the Machine was to be deleted before and still exists: otherwise it would be tried again each time, and no other
		case v.Asked:
			v.rank = -1
		}
	}
	slices.SortFunc(t.troubled, byUrgency)
	p := GroupPlan{Group: g}
	replacing, most := len(running), j.w.Settings.mostOf(g)
	for _, v := range t.troubled {
		switch {
		case v.Brake == brakeCluster || v.Brake == brakeGroup:
			if j.settled(v) {
				p.Held = j.held(v)
			}
		case v.Brake != "" || v.Due.After(j.w.Now):
		case !v.began.IsZero():
			if j.repeats(v) {
				p.Replace = append(p.Replace, v)
			}
		case replacing < most:
			p.Replace = append(p.Replace, v)
			j.asks(v, 0)
			replacing++
		default:
			v.Brake = brakeReplacing
		}
	}
	if len(p.Replace) > 0 {
		// The record is written anyway. Otherwise entries stay, so that a healthy cluster causes no writes.
		ended = slices.DeleteFunc(ended, func(e v1alpha1.HealthReplacement) bool { return j.w.forgotten(g, &e) })
	}
	p.Replacements = append(ended, running...)
	j.plan.Replacing += replacing
	j.plan.Groups = append(j.plan.Groups, p)
}

// repeats reports whether the deletion of a Machine whose replacement has begun is asked for again now: the Machine still exists, perhaps
// because the API server refuses the deletion. The waits double with the age of the replacement, up to [again].
func (j *judgement) repeats(v *Verdict) bool {
	last, age := j.w.Seen[sighting{v.Machine.UID, asked}], j.w.Now.Sub(v.began)
	if age > settling {
		v.Brake = brakeRefused
	}
	if next := last.Add(waitAfter(last.Sub(v.began))); !last.IsZero() && next.After(j.w.Now) {
		j.plan.Seen[sighting{v.Machine.UID, asked}] = last
		j.lookAt(next)
		return false
	}
	j.asks(v, age)
	return true
}

// asks records that the deletion of a Machine is asked for now. age is how long ago its replacement began.
func (j *judgement) asks(v *Verdict, age time.Duration) {
	j.plan.Seen[sighting{v.Machine.UID, asked}] = j.w.Now
	j.lookAt(j.w.Now.Add(waitAfter(age)))
}

// waitAfter returns the wait after a request for a deletion. age is how old the replacement was then.
func waitAfter(age time.Duration) time.Duration { return min(max(leastRetry, age), again) }

// settled reports whether the Machine has been unhealthy for so long that its condition Healthy is written.
func (j *judgement) settled(v *Verdict) bool {
	at := v.Since.Add(settling)
	if v.Asked || !at.After(j.w.Now) {
		return true
	}
	j.lookAt(at)
	return false
}

// byUrgency compares two Machines by their rank. Of two with the same rank, the one with the older problem comes first.
func byUrgency(a, b *Verdict) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), a.Since.Compare(b.Since), cmp.Compare(a.Machine.Namespace, b.Machine.Namespace), cmp.Compare(a.Machine.Name, b.Machine.Name))
}

// lookAt requests that a new decision is made at the given time.
func (j *judgement) lookAt(at time.Time) {
	if j.plan.NextLook.IsZero() || at.Before(j.plan.NextLook) {
		j.plan.NextLook = at
	}
}

// StillDue reports whether a Machine that was to be replaced is still to be replaced, given the present state of the Machine
// and its Node: it is the same Machine, and it still has the same problem or its replacement is still requested. A nil node
// means that there is no Node.
func (w *World) StillDue(v *Verdict, m *v1alpha1.Machine, node *corev1.Node) bool {
	live := *v.Machine
	live.Machine, live.Node = m, node
	now := &Verdict{Machine: &live, Finding: w.look(&live)}
	w.schedule(now)
	return m.UID == v.Machine.UID && now.Asked == v.Asked && !now.Due.IsZero() && !now.Due.After(w.Now) &&
		(now.Asked || now.Counted && now.Unhealthy && now.Reason == v.Reason)
}

// advice explains to an operator how to replace a Machine in spite of a brake.
const advice = "To replace one nevertheless, set the annotation " + v1alpha1.AnnotationReplace + `: "true" on the Machine`

// show computes condition Healthy of a Machine that is unhealthy or whose replacement is requested, unless it is deleted now. Its message
// contains no number that depends on other Machines, because each change of such a number would cause a write of this Machine.
func (j *judgement) show(v *Verdict) {
	if v.Condition != nil || !j.settled(v) || v.Brake == "" && !v.Due.After(j.w.Now) {
		return
	}
	text := j.fate(v)
	if v.Trouble != "" {
		text = fmt.Sprintf("%s, since %s; %s", v.Trouble, v.Since.UTC().Format(time.RFC3339), text)
	}
	have := v.Machine.Condition(v1alpha1.ConditionHealthy)
	if have.Status != corev1.ConditionFalse || have.Reason != v.Reason || have.Message != text {
		v.Condition = &v1alpha1.MachineCondition{Type: v1alpha1.ConditionHealthy, Status: corev1.ConditionFalse, Reason: v.Reason, Message: text}
	}
}

// fates describes what will happen to a Machine to which a brake applies, whichever Machine it is.
var fates = map[Brake]string{
	brakeNoOwner:     "it is not replaced, because no MachineSet would create another: delete it, or repair it by hand",
	brakeOptedOut:    "it is not replaced, because an annotation (" + v1alpha1.AnnotationSkipHealth + " or " + v1alpha1.AnnotationSkipHealthCAPI + ") forbids it",
	brakeSwitchedOff: "it is not replaced, because the health timeout (flag --health-timeout, annotation " + v1alpha1.AnnotationHealthTimeout + ") is 0 or never",
	brakeRollout:     "the rollout of its MachineDeployment replaces it",
	brakeRefused:     "the API server refuses to delete it (the log of drover has the error); the deletion is repeated, and later others of its group are replaced first",
}

// fate returns what will happen to the Machine, as a phrase.
func (j *judgement) fate(v *Verdict) string {
	switch v.Brake {
	case "":
	case brakeCluster, brakeGroup:
		return "it is not replaced while " + j.tooManyText(v) + ". " + advice
	case brakeReplacing:
		return fmt.Sprintf("it waits, because %s replaces %d at a time (flag --health-max-replacing, annotation %s)", v.Machine.Group, j.w.Settings.mostOf(v.Machine.Group), v1alpha1.AnnotationHealthMaxReplacing)
	default:
		return fates[v.Brake]
	}
	text := "it is replaced at " + v.Due.UTC().Format(time.RFC3339) + " unless it recovers"
	if v.attempt > 1 {
		text += fmt.Sprintf(". This is attempt %d in this group, and each waits longer: replacing Machines does not seem to help, so find the cause. %s", v.attempt, advice)
	}
	return text
}

// held returns condition RepairHeld of the group of a Machine, to which a brake applies because too many Machines are unhealthy.
func (j *judgement) held(v *Verdict) *metav1.Condition {
	c := &metav1.Condition{
		Type: v1alpha1.ConditionRepairHeld, Status: metav1.ConditionTrue, Reason: string(v.Brake), Message: j.tooManyText(v) + "; none of them is replaced. " + advice,
		LastTransitionTime: wholeSeconds(j.w.Now),
	}
	if had := v.Machine.Group.Held; had != nil {
		c.LastTransitionTime = had.LastTransitionTime
	}
	return c
}

// tooManyText explains a brake that applies because too many Machines are unhealthy.
func (j *judgement) tooManyText(v *Verdict) string {
	if v.Brake == brakeCluster {
		return fmt.Sprintf("more than %d %% of the cluster's Machines are unhealthy", j.w.Settings.MaxUnhealthy)
	}
	return fmt.Sprintf("more than %d %% of the Machines of %s are unhealthy", j.w.Settings.MaxUnhealthy, v.Machine.Group)
}
