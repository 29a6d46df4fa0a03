package ninetydays

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	health "github.com/drover-project/drover/machines/health/verdict"
)

const (
	healthTimeout = 10 * time.Minute
	// pace is how long after a change the health controller runs.
	pace = time.Second
	// repairBound is how long a server may be broken while nothing delays its replacement: the detection, the health
	// timeout, and the minute between two rounds.
	repairBound = detection + spread + healthTimeout + time.Minute + 10*time.Second
	// atATime is how many Machines of a group may be replaced at once, and replacementTime how long a replacement counts: the join timeout
	// and two minutes.
	atATime         = 1
	replacementTime = joinTimeout + 2*time.Minute
	// queueBound is how long a server may be broken when other servers of its group are replaced first.
	queueBound = 3 * time.Hour
)

// repair runs the rounds of the health controller without its clients, and checks the decisions.
type repair struct {
	*world
	trouble *trouble
	// began is the time at which the current leader started, or at which the API server became reachable again, whichever is
	// later. leads is true while a process is the leader.
	began time.Time
	leads bool
	// seen is what the leader remembers. replaced holds the replacements of each group that began within replacementTime.
	seen     health.Seen
	replaced map[*health.Group][]*replacement
	// next is the time of the next scheduled round. A round that was scheduled for another time is skipped.
	next   time.Time
	rounds int
	// last is the decision of the last round. held counts how many groups each brake stopped, summed over all rounds.
	last    *health.Plan
	held    map[string]int
	slowest time.Duration
}

func newRepair(w *world, t *trouble) *repair {
	r := &repair{world: w, trouble: t, began: w.now, leads: true, replaced: map[*health.Group][]*replacement{}, held: map[string]int{}}
	w.changed = func() { r.plan(w.now.Add(pace)) }
	r.plan(w.now)
	return r
}

// plan schedules the next round for a time, unless an earlier round is already scheduled.
func (r *repair) plan(at time.Time) {
	if r.next.After(r.now) && !at.Before(r.next) {
		return
	}
	r.next = at
	r.at(at, func() {
		if r.next.Equal(r.now) {
			r.next = time.Time{}
			r.round()
		}
	})
}

// lead starts the work of a new leader.
func (r *repair) lead() {
	r.leads, r.began, r.seen = true, r.now, nil
	r.plan(r.now.Add(pace))
}

// round runs one round of the health controller.
func (r *repair) round() {
	if !r.leads {
		return
	}
	r.rounds++
	if !r.answers() {
		r.began = r.away
		r.plan(r.now.Add(5 * time.Second))
		return
	}
	w := r.snapshot()
	p := health.Judge(w)
	if !p.NextLook.IsZero() {
		r.plan(p.NextLook)
	}
	r.last, r.seen = &p, p.Seen
	for _, g := range p.Groups {
		var due []*health.Verdict
		for _, v := range g.Replace {
			if s := r.servers[v.Machine.UID]; s != nil && s.machine != nil && w.StillDue(v, s.machine, s.node) {
				g.Record(v, r.now)
				due = append(due, v)
			}
		}
		g.Group.Replacements, g.Group.Held = g.Replacements, g.Held
		if g.Held != nil {
			r.held[g.Held.Reason]++
		}
		for _, v := range due {
			r.replace(r.servers[v.Machine.UID], v)
		}
	}
}

// snapshot returns the input of the health controller as it is now.
func (r *repair) snapshot() *health.World {
	return &health.World{
		Now: r.now, Began: r.began, Groups: r.groups, Machines: r.trouble.healthMachines(), Seen: r.seen,
		Settings: health.Settings{Timeout: healthTimeout, MaxReplacing: intstr.FromInt32(atATime), MaxUnhealthy: 40, Join: joinTimeout},
	}
}

// replacement is a replacement that has begun.
type replacement struct {
	of    *server
	began time.Time
}

// replace checks that the Machine may be replaced, and deletes it.
func (r *repair) replace(s *server, why *health.Verdict) {
	switch {
	case s.broken.IsZero() && !r.zoneOut(s.zone):
		r.Fatalf("%v: Machine %s is replaced although its server works, or comes back at %v (fault %d): %s", r.now, s.name, s.silent, r.trouble.now(), why.Trouble)
	case r.now.Sub(s.node.Status.Conditions[0].LastTransitionTime.Time) < healthTimeout:
		r.Fatalf("%v: Machine %s is replaced before the timeout is over: %s", r.now, s.name, why.Trouble)
	case r.now.Sub(r.began) < healthTimeout:
		r.Fatalf("%v: Machine %s is replaced before the timeout is over since drover leads or reaches the API server (%v): %s", r.now, s.name, r.began, why.Trouble)
	case r.replacing(s.group) >= atATime:
		r.Fatalf("%v: Machine %s is replaced while others of its group are: %s", r.now, s.name, why.Trouble)
	}
	r.replaced[s.group] = append(r.replaced[s.group], &replacement{s, r.now})
	r.counts.replaced++
	if s.broken.IsZero() {
		r.counts.needless++
	} else {
		r.slowest = max(r.slowest, r.now.Sub(s.broken))
	}
	r.discard(s)
}

// replacing returns how many replacements of a group are under way: those that began within the time for a replacement, and whose Machine
// exists or whose successor is missing. The status of a group has whole seconds.
func (r *repair) replacing(g *health.Group) (n int) {
	started := 0
	for _, s := range r.all() {
		if s.group == g && !s.leaving() && s.node != nil {
			started++
		}
	}
	coming := g.Size - started
	r.replaced[g] = slices.DeleteFunc(r.replaced[g], func(p *replacement) bool { return r.now.Sub(p.began) >= replacementTime-time.Second })
	for _, p := range r.replaced[g] {
		if p.of.machine != nil || coming > 0 {
			n++
		}
		if p.of.machine == nil {
			coming--
		}
	}
	return n
}

// noneForgotten fails the test when a broken server is not replaced within repairBound, or within queueBound when other
// servers of its group are replaced first. It is called once a minute.
func (r *repair) noneForgotten() {
	disturbed := !r.leads || !r.answers() || r.trouble.now() != nothing || r.zonesOut()
	r.broken = slices.DeleteFunc(r.broken, (*server).leaving)
	for _, s := range r.broken {
		if s.node == nil {
			continue
		}
		if disturbed || s.free.IsZero() || r.began.After(s.free) {
			s.free, s.calm = r.now, r.now
		}
		if othersFirst(s) {
			s.calm = r.now
		}
		if r.now.Sub(s.calm) > repairBound || r.now.Sub(s.free) > queueBound {
			r.Fatalf("%v: the server of %s has been broken since %v and was not replaced, although nothing has delayed it since %v, and only other servers of its group since %v: %s",
				r.now, s.name, s.broken, s.calm, s.free, r.verdictOf(s))
		}
	}
}

// verdictOf returns a description of the last decision about a Machine.
func (r *repair) verdictOf(s *server) string {
	for _, v := range r.last.Verdicts {
		if v.Machine.UID == s.uid {
			return fmt.Sprintf("brake %q, due at %v, unhealthy since %v", v.Brake, v.Due, v.Since)
		}
	}
	return "it counts as healthy"
}

// othersFirst reports whether other Machines of the group are being replaced.
func othersFirst(s *server) bool {
	for _, e := range s.group.Replacements {
		if e.UID != s.uid {
			return true
		}
	}
	return false
}

// zonesOut reports whether a zone has an outage, or had one recently. Then replacements may be late in groups of other zones, too, because
// their brakes may count Machines in that zone.
func (r *repair) zonesOut() bool { return slices.ContainsFunc(r.zones, r.zoneOut) }

// zoneOut reports whether a zone has an outage, or had one so recently that some of its Nodes may not be Ready yet.
func (r *repair) zoneOut(z *zone) bool { return r.now.Before(z.back.Add(4*time.Minute + spread)) }
