package ninetydays

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	health "github.com/drover-project/drover/machines/health/verdict"
)

const (
	healthTimeout = 10 * time.Minute
	// pace is how long after a change the health controller runs.
	pace = time.Second
	// repairBound is how long a server may be broken while nothing delays its replacement: the detection, the health
	// timeout, and the minute between two rounds.
	repairBound = detection + spread + healthTimeout + time.Minute + 10*time.Second
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
	// known and noticed are what the leader remembers: known holds the Machines, and noticed the times at which each
	// was first unhealthy and was last stopped by a brake.
	known   health.Known
	noticed map[types.UID][2]time.Time
	// next is the time of the next scheduled round. A round that was scheduled for another time is skipped.
	next   time.Time
	rounds int
	// last is the decision of the last round. held counts how many groups each brake stopped, summed over all rounds.
	last    *health.Plan
	held    map[health.Brake]int
	slowest time.Duration
}

func newRepair(w *world, t *trouble) *repair {
	r := &repair{world: w, trouble: t, began: w.now, leads: true, noticed: map[types.UID][2]time.Time{}, held: map[health.Brake]int{}}
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
	r.leads, r.began, r.known, r.noticed = true, r.now, health.Known{}, map[types.UID][2]time.Time{}
	r.plan(r.now.Add(pace))
}

// round runs one round of the health controller.
func (r *repair) round() {
	if !r.leads {
		return
	}
	r.rounds++
	w := r.snapshot()
	p := health.Judge(w)
	if !p.NextLook.IsZero() {
		r.plan(p.NextLook)
	}
	if w.Stale != "" {
		return
	}
	r.last = &p
	r.remember(&p)
	for _, g := range p.Groups {
		g.Group.Replacements = g.Replacements
		r.held[g.Held]++
	}
	for _, v := range p.Replace {
		s := r.servers[v.Machine.UID]
		if s != nil && s.machine != nil && w.StillDue(v, s.machine, s.node, s.group) {
			r.replace(s, v)
		}
	}
}

// snapshot returns the input of the health controller as it is now.
func (r *repair) snapshot() *health.World {
	w := &health.World{Now: r.now, Began: r.began, Groups: r.groups, Host: hostOf, Settings: health.Settings{
		Timeout: healthTimeout, MaxReplacing: intstr.FromInt32(1), MaxUnhealthy: 40, Join: joinTimeout,
	}}
	if !r.answers() {
		w.Stale, r.began = "the API server cannot be reached", r.away
		return w
	}
	w.Machines = r.trouble.healthMachines()
	w.Missing = r.known.Missing(r.now, w.Machines)
	for i := range w.Machines {
		m := &w.Machines[i]
		n := r.noticed[m.UID]
		m.Noticed, m.Held = n[0], n[1]
	}
	return w
}

// hostOf returns the physical host that a Machine records.
func hostOf(m *v1alpha1.Machine) string { return m.Labels["host"] }

func (r *repair) remember(p *health.Plan) {
	noticed := make(map[types.UID][2]time.Time, p.Unhealthy)
	for _, v := range p.Verdicts {
		if !v.Unhealthy {
			continue
		}
		n, known := r.noticed[v.Machine.UID]
		if !known {
			n[0] = r.now
		}
		if v.Brake.OfMany() {
			n[1] = r.now
		}
		noticed[v.Machine.UID] = n
	}
	r.noticed = noticed
}

// replace checks that the Machine may be replaced, and deletes it.
func (r *repair) replace(s *server, why *health.Verdict) {
	switch {
	case s.broken.IsZero():
		r.Fatalf("%v: Machine %s is replaced although its server works, or comes back at %v or %v (fault %d): %s", r.now, s.name, s.silent, s.zone.back, r.trouble.now(), why.Trouble)
	case r.now.Sub(s.node.Status.Conditions[0].LastTransitionTime.Time) < healthTimeout:
		r.Fatalf("%v: Machine %s is replaced before the timeout is over: %s", r.now, s.name, why.Trouble)
	}
	r.counts.replaced++
	r.slowest = max(r.slowest, r.now.Sub(s.broken))
	r.discard(s)
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
			return fmt.Sprintf("brake %q, due at %v, noticed at %v, held until %v", v.Brake, v.Due, v.Machine.Noticed, v.Machine.Held)
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

// zonesOut reports whether a zone has an outage, or had one so recently that some of its Nodes may not be Ready yet.
// Then replacements may be late in groups of other zones, too, because their brakes may count Machines in that zone.
func (r *repair) zonesOut() bool {
	return slices.ContainsFunc(r.zones, func(z *zone) bool { return r.now.Before(z.back.Add(4 * time.Minute)) })
}
