package autoscaler

import (
	"maps"
	"time"
)

// memory holds what the simulated autoscaler remembers between loops. A restart loses all of it, as in cluster-autoscaler.
type memory struct {
	// unregistered holds the time since which each instance has been without a node. unneeded holds the time since which each node has been
	// unneeded.
	unregistered map[string]time.Time
	unneeded     map[string]time.Time
	incorrect    map[string]sizeGap
	requests     map[string]request
	backoffs     map[string]backoff
	// failed holds the IDs of the instances that had an error in the previous loop.
	failed  map[string]bool
	lastAdd time.Time
}

// sizeGap is a difference between the target size and the nodes, with the time since which it has not changed.
type sizeGap struct {
	registered, target int
	since              time.Time
}

// request is a scale-up that is not fulfilled yet.
type request struct {
	increase int
	since    time.Time
}

type backoff struct {
	until, failed time.Time
	last          time.Duration
}

func newMemory() *memory {
	return &memory{
		unregistered: map[string]time.Time{}, unneeded: map[string]time.Time{}, incorrect: map[string]sizeGap{},
		requests: map[string]request{}, backoffs: map[string]backoff{}, failed: map[string]bool{},
	}
}

// observe updates the timers from the data of one loop.
func (m *memory) observe(v *View) {
	seen := map[string]bool{}
	for i := range v.Groups {
		g := &v.Groups[i]
		for _, instance := range v.unregistered(g) {
			seen[instance.ID] = true
		}
		m.observeSize(v, g)
	}
	keep(m.unregistered, seen, v.Now)
	for i := range v.Groups {
		g := &v.Groups[i]
		// The back-off stays: cluster-autoscaler does not end it early.
		if _, ok := m.requests[g.ID]; ok && m.missing(v, g) <= 0 {
			delete(m.requests, g.ID)
		}
	}
}

// keep makes timers hold exactly the keys in seen. A new key gets the time now; the other keys keep their times.
func keep(timers map[string]time.Time, seen map[string]bool, now time.Time) {
	maps.DeleteFunc(timers, func(id string, _ time.Time) bool { return !seen[id] })
	for id := range seen {
		if _, ok := timers[id]; !ok {
			timers[id] = now
		}
	}
}

// observeSize records a group whose nodes and unregistered instances are fewer than its target size. It ignores a group with neither nodes
// nor unregistered instances, because cluster-autoscaler has no counts for such a group.
func (m *memory) observeSize(v *View, g *GroupView) {
	registered, unregistered := v.readiness(g).registered, len(v.unregistered(g))
	if registered+unregistered == 0 || registered+unregistered >= g.Target {
		delete(m.incorrect, g.ID)
		return
	}
	gap := sizeGap{registered: registered, target: g.Target, since: v.Now}
	if before, ok := m.incorrect[g.ID]; ok && before.registered == registered && before.target == g.Target {
		gap.since = before.since
	}
	m.incorrect[g.ID] = gap
}

// longUnregistered returns the group's instances that have been without a node for the group's provisioning time or longer.
func (m *memory) longUnregistered(v *View, g *GroupView) []Instance {
	var out []Instance
	for _, i := range v.unregistered(g) {
		if since, ok := m.unregistered[i.ID]; ok && v.Now.Sub(since) >= g.Provision {
			out = append(out, i)
		}
	}
	return out
}

// missing returns how many nodes of a group's target size are still expected: they have not started, and they are not late.
func (m *memory) missing(v *View, g *GroupView) int {
	r := v.readiness(g)
	return g.Target - r.ready - r.unready - len(m.longUnregistered(v, g))
}

// upcoming returns how many nodes of a group the autoscaler expects to start soon. It returns 0 while the group backs off, or when
// this process has not scaled the group up: since 1.36 cluster-autoscaler counts only its own scale-ups.
func (m *memory) upcoming(v *View, g *GroupView) int {
	if _, asked := m.requests[g.ID]; !asked || m.backedOff(g.ID, v.Now) {
		return 0
	}
	return max(0, m.missing(v, g))
}

func (m *memory) backedOff(group string, now time.Time) bool {
	return now.Before(m.backoffs[group].until)
}

// late removes a group's scale-up if it was not fulfilled within the provisioning time, and returns by how many nodes the
// scale-up increased the group. ok is false if there was no such scale-up.
func (m *memory) late(v *View, g *GroupView) (increase int, ok bool) {
	r, asked := m.requests[g.ID]
	if !asked || v.Now.Sub(r.since) < g.Provision {
		return 0, false
	}
	delete(m.requests, g.ID)
	return r.increase, true
}

// grew records a scale-up that the provider accepted.
func (m *memory) grew(group string, delta int, now time.Time) {
	m.requests[group] = request{increase: m.requests[group].increase + delta, since: now}
	m.lastAdd = now
}

// fell subtracts the instances that could not be created from a group's scale-up.
func (m *memory) fell(group string, delta int) {
	r := m.requests[group]
	r.increase -= delta
	if r.increase <= 0 {
		delete(m.requests, group)
		return
	}
	m.requests[group] = r
}

// stumbled makes a group back off after a failure, for twice as long as the last time unless the last failure was long ago. While
// the group already backs off, it only records the failure.
func (m *memory) stumbled(group string, now time.Time, o Options) {
	b := m.backoffs[group]
	if now.Sub(b.failed) > o.BackoffReset {
		b = backoff{}
	}
	b.failed = now
	if b.until.Before(now) || b.until.Equal(now) {
		b.last = min(max(o.InitialBackoff, 2*b.last), o.MaxBackoff)
		b.until = now.Add(b.last)
	}
	m.backoffs[group] = b
}

// newlyFailed returns the instances in error that were not in error in the previous loop, and records all of them.
func (m *memory) newlyFailed(v *View) map[string][]Instance {
	now, fresh := map[string]bool{}, map[string][]Instance{}
	for i := range v.Groups {
		for _, instance := range v.Groups[i].failed() {
			now[instance.ID] = true
			if !m.failed[instance.ID] {
				fresh[v.Groups[i].ID] = append(fresh[v.Groups[i].ID], instance)
			}
		}
	}
	m.failed = now
	return fresh
}
