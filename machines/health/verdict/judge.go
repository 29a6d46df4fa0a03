package verdict

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// settling is how long a Machine must be unhealthy before condition Healthy is written, so that the short restart of a
	// kubelet does not cause a write.
	settling = 10 * time.Second
	// again is the interval after which unhealthy Machines are judged again if nothing changes.
	again = time.Minute
	// staleAgain is the interval after which Machines are judged again when the snapshot was stale.
	staleAgain = 5 * time.Second
)

// judgement is the state of the decision about one snapshot.
type judgement struct {
	w        *World
	plan     Plan
	findings []Finding
	shares   *shares
	// troubled holds the verdicts of Machines that are unhealthy or whose replacement is requested.
	troubled []*Verdict
	// up counts, for each group, the Machines whose first start is complete, without those that a rollout is replacing. The
	// difference between the group's size and this number is the number of successors that are still expected.
	up map[*Group]int
	// recorded holds the Machines that the status of their group lists as being replaced.
	recorded map[types.UID]whereabouts
}

// Judge decides which Machines are replaced now. It does not change the snapshot.
func Judge(w *World) Plan {
	if w.Stale != "" {
		return Plan{NextLook: w.Now.Add(staleAgain)}
	}
	j := &judgement{w: w, shares: newShares(w.Settings.MaxUnhealthy, w.Missing), up: map[*Group]int{}, recorded: map[types.UID]whereabouts{}}
	j.look()
	j.shares.countHosts(w, j.findings, j.troubled)
	byGroup := map[*Group][]*Verdict{}
	for _, v := range j.troubled {
		j.judge(v)
		byGroup[v.Machine.Group] = append(byGroup[v.Machine.Group], v)
	}
	for _, g := range w.Groups {
		if len(byGroup[g]) > 0 || len(g.Replacements) > 0 {
			j.judgeGroup(g, byGroup[g])
		}
	}
	for _, v := range j.troubled {
		j.show(v)
	}
	slices.SortFunc(j.plan.Replace, byUrgency)
	if len(j.troubled) > 0 {
		j.lookAt(w.Now.Add(again))
	}
	return j.plan
}

// look diagnoses each Machine alone, and counts the Machines.
func (j *judgement) look() {
	for _, g := range j.w.Groups {
		for _, e := range g.Replacements {
			j.recorded[e.UID] = whereabouts{}
		}
	}
	recorded := map[types.UID]whereabouts{}
	j.findings = make([]Finding, len(j.w.Machines))
	for i := range j.w.Machines {
		m, f := &j.w.Machines[i], &j.findings[i]
		*f = j.w.look(m)
		j.shares.count(m, f)
		if f.started && !m.Outdated {
			j.up[m.Group]++
		}
		if f.startsUntil.After(j.w.Now) {
			j.lookAt(f.startsUntil)
		}
		v := j.verdictOf(m, f)
		if _, ok := j.recorded[m.UID]; ok {
			recorded[m.UID] = whereabouts{verdict: v, leaving: m.DeletionTimestamp != nil || m.Aside}
		}
	}
	j.recorded = recorded
}

// verdictOf returns the initial verdict of a Machine that is unhealthy or whose replacement is requested, and of a Machine
// that has recovered while its condition still shows a problem. It returns nil for any other Machine.
func (j *judgement) verdictOf(m *Machine, f *Finding) *Verdict {
	if !f.Unhealthy && !f.Asked {
		if f.Counted && m.Machine.Condition(v1alpha1.ConditionHealthy).Status == corev1.ConditionFalse {
			recovered := &Condition{corev1.ConditionTrue, reasonWell, ""}
			j.plan.Verdicts = append(j.plan.Verdicts, &Verdict{Machine: m, Finding: *f, Condition: recovered})
		}
		return nil
	}
	v := &Verdict{Machine: m, Finding: *f, host: j.w.hostOf(m)}
	if f.Unhealthy {
		j.plan.Unhealthy++
	} else {
		v.Reason, v.Since = reasonAsked, j.w.Now
	}
	j.troubled = append(j.troubled, v)
	j.plan.Verdicts = append(j.plan.Verdicts, v)
	return v
}

// judge decides when the Machine is due for replacement, and which brake applies to it. judgeGroup applies the limit on
// simultaneous replacements later.
func (j *judgement) judge(v *Verdict) {
	m := v.Machine
	v.Due = j.w.due(v)
	v.attempt, _ = j.w.attempt(m)
	v.Overdue = !j.w.ripe(v).After(j.w.Now)
	switch {
	case m.Group == nil:
		v.Brake = brakeNoOwner
	case v.Asked:
		v.Brake, _ = j.shares.unbelievable()
	case optedOut(m):
		v.Brake = brakeOptedOut
	case m.Outdated:
		v.Brake = brakeRollout
	case v.Due.IsZero():
		v.Brake = brakeSwitchedOff
	default:
		v.Brake, _ = j.shares.brake(m)
	}
	if v.Due.After(j.w.Now) {
		j.lookAt(v.Due)
	}
}

// ripe returns when the Machine has been unhealthy for its timeout; zero means never. It returns the present time when the
// replacement is requested, and the start of the problem when the Machine may be replaced without waiting.
func (w *World) ripe(v *Verdict) time.Time {
	timeout := w.Settings.timeoutOf(v.Machine)
	switch {
	case v.Asked:
		return w.Now
	case timeout == 0:
		return time.Time{}
	case v.atOnce:
		return v.Since
	}
	return v.Since.Add(timeout)
}

// due returns when the Machine may be replaced; zero means never. After a time in which too many Machines were unhealthy,
// half of the timeout must pass first, because the Nodes of a recovering zone become Ready one after the other. When earlier replacements
// did not help, the wait is longer.
func (w *World) due(v *Verdict) time.Time {
	at, held := w.ripe(v), v.Machine.Held
	if v.Asked || at.IsZero() {
		return at
	}
	if calm := held.Add(w.Settings.timeoutOf(v.Machine) / 2); !held.IsZero() && at.Before(calm) {
		at = calm
	}
	if _, earliest := w.attempt(v.Machine); at.Before(earliest) {
		at = earliest
	}
	return at
}

// isDue reports whether the Machine may be replaced now.
func (w *World) isDue(v *Verdict) bool { return !v.Due.IsZero() && !v.Due.After(w.Now) }

// judgeGroup selects the Machines of a group to replace among those that are due, and computes what the group's status must
// show.
func (j *judgement) judgeGroup(g *Group, troubled []*Verdict) {
	running, ended := j.running(g)
	b := newBudget(g, j.w.Settings.mostOf(g), running)
	p := GroupPlan{Group: g}
	for _, v := range slices.SortedFunc(slices.Values(troubled), byUrgency) {
		switch {
		case v.Brake != "":
			if v.Brake.OfMany() && j.settled(v) && p.Held == "" {
				p.Held, p.Message = j.shares.brake(v.Machine)
			}
		case !j.w.isDue(v):
		case v.Machine.Refused.After(j.w.Now):
			v.Brake = brakeRefused
			j.lookAt(v.Machine.Refused)
		case b.take(v, j.shares.hostFailed(v.host), j.w.Now):
			j.plan.Replace = append(j.plan.Replace, v)
		default:
			v.Brake = brakeReplacing
		}
	}
	if len(b.entries) > len(running) {
		// The record is written anyway. Otherwise entries stay, so that a healthy cluster causes no writes.
		ended = slices.DeleteFunc(ended, func(e v1alpha1.HealthReplacement) bool { return j.w.forgotten(g, &e) })
	}
	// New entries take the place of the oldest ones that have ended.
	room := v1alpha1.MaxHealthReplacements - len(b.entries)
	p.Replacements = append(ended[max(0, len(ended)-room):], b.entries...)
	if p.Held != "" {
		p.Message += "; none of them is replaced. " + advice
	}
	j.plan.Groups = append(j.plan.Groups, p)
}

// settled reports whether the Machine has been unhealthy for so long that its condition Healthy is written.
func (j *judgement) settled(v *Verdict) bool {
	at := v.Since.Add(settling)
	if v.Asked || !at.After(j.w.Now) {
		return true
	}
	j.lookAt(at)
	return false
}

// byUrgency compares two Machines that are due for replacement: requested replacements come first, then older problems. A
// Machine whose deletion was refused comes last; otherwise it would be tried again each time, and no other Machine of its
// group.
func byUrgency(a, b *Verdict) int {
	refused := func(v *Verdict) bool { return !v.Machine.Refused.IsZero() }
	switch {
	case refused(a) != refused(b) && refused(b):
		return -1
	case refused(a) != refused(b):
		return 1
	case a.Asked != b.Asked && a.Asked:
		return -1
	case a.Asked != b.Asked:
		return 1
	}
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Machine.Namespace, b.Machine.Namespace), cmp.Compare(a.Machine.Name, b.Machine.Name))
}

// lookAt requests that a new decision is made at the given time.
func (j *judgement) lookAt(at time.Time) {
	if j.plan.NextLook.IsZero() || at.Before(j.plan.NextLook) {
		j.plan.NextLook = at
	}
}

// StillDue reports whether a Machine that was to be replaced is still to be replaced, given the present state of the Machine
// and its Node: it is the same Machine, and it still has the same problem or its replacement is still requested. A nil node
// means that there is no Node. group is the Machine's group in its present state.
func (w *World) StillDue(v *Verdict, m *v1alpha1.Machine, node *corev1.Node, group *Group) bool {
	now := *v.Machine
	now.Machine, now.Node, now.Group = m, node, group
	f := w.look(&now)
	if m.UID != v.Machine.UID || f.Asked != v.Asked {
		return false
	}
	if !f.Asked && (!f.Counted || !f.Unhealthy || f.Reason != v.Reason) {
		return false
	}
	fresh := &Verdict{Machine: &now, Finding: f}
	fresh.Due = w.due(fresh)
	return w.isDue(fresh)
}
