package verdict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	simDays     = 90
	simMachines = 500
	simGroups   = 25
	simHosts    = 10 // in each zone
	simStep     = 20 * time.Second
	// simDetect is how long after a Node falls silent its condition Ready is Unknown, and after it is back True.
	simDetect = 40 * time.Second
)

var simZones = []string{"x", "y", "z"}

// server is what one Machine really is in the simulation. Health sees only the Machine and its Node.
type server struct {
	*Machine
	zone, host string
	// broken is when it broke for good; zero: it works.
	broken time.Time
	// silentUntil is when it comes back by itself; fell is when it fell silent; zero: it works.
	silentUntil, fell time.Time
	// back is when its Node is Ready again.
	back time.Time
	// boots is when its Node is Ready for the first time; leaves is when the deleted Machine is gone.
	boots, leaves time.Time
	// calm: it works, its Node shows it, and nothing has happened to it since.
	calm bool
}

// simulation plays 90 days of a cluster.
type simulation struct {
	*testing.T
	rand    *rand.Rand
	now     time.Time
	began   time.Time
	end     time.Time
	servers map[types.UID]*server
	order   []*server
	groups  []*Group
	noticed map[types.UID][2]time.Time
	next    time.Time // of health's own clock
	named   int

	zoneBack  map[string]time.Time
	blindTill time.Time // the API server cannot be reached until then
	// frozen is what the caches show until frozenTill.
	frozen     []Machine
	frozenTill time.Time

	events, passes, replaced, hosts, outages int
	slowest                                  time.Duration
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{T: t, rand: rand.New(rand.NewPCG(seed, seed)), now: noon, began: noon, end: noon.Add(simDays * 24 * time.Hour),
		servers: map[types.UID]*server{}, noticed: map[types.UID][2]time.Time{}, zoneBack: map[string]time.Time{}}
	for i := range simGroups {
		g := &Group{Kind: "MachineDeployment", Namespace: "default", Name: fmt.Sprintf("g%d", i), UID: types.UID(fmt.Sprintf("g%d", i)), Size: simMachines / simGroups}
		s.groups = append(s.groups, g)
		for range g.Size {
			s.add(g).boots = noon
		}
	}
	return s
}

// add makes a Machine of a group on any host. Every third group is in one zone, the others are in all.
func (s *simulation) add(g *Group) *server {
	s.named++
	m := newMachine(fmt.Sprintf("%s-%d", g.Name, s.named))
	m.Group = g
	zone := simZones[s.rand.IntN(len(simZones))]
	if slices.Index(s.groups, g)%3 == 0 {
		zone = simZones[slices.Index(s.groups, g)%len(simZones)]
	}
	v := &server{Machine: &m, zone: zone, host: fmt.Sprintf("%s%d", zone, s.rand.IntN(simHosts)), boots: s.now.Add(2 * time.Minute)}
	m.Labels["host"] = v.host
	m.Node.Labels[v1alpha1.LabelPhysicalHost], m.Node.Labels[corev1.LabelTopologyZone] = v.host, zone
	m.Status.NodeRef, m.Status.Phase = nil, ptr.To(v1alpha1.PhasePending)
	s.servers[m.UID] = v
	s.order = append(s.order, v)
	return v
}

// works reports whether the server of a Machine works now.
func (s *simulation) works(v *server) bool {
	return v.broken.IsZero() && !s.now.Before(v.silentUntil) && !s.now.Before(s.zoneBack[v.zone])
}

// happen lets the time of one step pass: what breaks, comes back, boots and leaves.
func (s *simulation) happen() {
	s.now = s.now.Add(simStep)
	chance := func(perDay float64) bool { return s.rand.Float64() < perDay*simStep.Hours()/24 }
	if chance(6) {
		v := s.pick()
		v.broken, v.calm = s.now, false
		s.events++
	}
	if chance(25) {
		if v := s.pick(); v.calm {
			v.silentUntil, v.calm = s.now.Add(time.Duration(s.rand.IntN(500))*time.Second), false
			s.events++
		}
	}
	if chance(0.25) {
		host := s.pick().host
		s.hosts++
		s.all(func(v *server) {
			if v.host == host && v.broken.IsZero() {
				v.broken, v.calm = s.now, false
			}
		})
	}
	if chance(0.15) {
		zone := simZones[s.rand.IntN(len(simZones))]
		s.zoneBack[zone] = s.now.Add(15*time.Minute + time.Duration(s.rand.IntN(180))*time.Minute)
		s.outages++
		s.all(func(v *server) { v.calm = v.calm && v.zone != zone })
	}
	if chance(0.5) {
		s.blindTill = s.now.Add(time.Duration(s.rand.IntN(120)) * time.Minute)
	}
	if chance(0.3) { // another leader
		s.began, s.noticed = s.now, map[types.UID][2]time.Time{}
	}
	gone := false
	s.all(func(v *server) {
		if !v.calm {
			gone = s.update(v) || gone
		}
	})
	if gone {
		s.order = slices.DeleteFunc(s.order, func(v *server) bool { return s.servers[v.UID] == nil })
	}
}

// all calls a function with each server that exists now.
func (s *simulation) all(with func(*server)) {
	for _, v := range s.order[:len(s.order):len(s.order)] {
		with(v)
	}
}

func (s *simulation) pick() *server { return s.order[s.rand.IntN(len(s.order))] }

// update sets the statuses of one Machine and its Node as kubelet and control plane would by now. It reports whether the Machine is gone.
func (s *simulation) update(v *server) (gone bool) {
	works := s.works(v)
	switch {
	case v.DeletionTimestamp != nil:
		if s.now.After(v.leaves) {
			delete(s.servers, v.UID)
			return true
		}
	case v.Status.NodeRef == nil:
		s.boot(v, works)
	case works:
		s.comeBack(v)
	case v.fell.IsZero():
		v.fell = s.now
	case v.Node.Status.Conditions[0].Status == corev1.ConditionTrue && s.now.Sub(v.fell) >= simDetect:
		s.report(v, corev1.ConditionUnknown)
	}
	return false
}

// comeBack makes the Node of a server that works again Ready: within a minute, and in a zone that is back one after the other.
func (s *simulation) comeBack(v *server) {
	if !v.fell.IsZero() {
		within := 3
		if s.now.Sub(s.zoneBack[v.zone]) < 2*simStep {
			within = 12
		}
		v.fell, v.back = time.Time{}, s.now.Add(time.Duration(s.rand.IntN(within))*simStep)
	}
	v.calm = v.Node.Status.Conditions[0].Status == corev1.ConditionTrue
	if !v.calm && !s.now.Before(v.back) {
		s.report(v, corev1.ConditionTrue)
	}
}

// boot brings a Machine to its Node. One that is broken meets the join deadline.
func (s *simulation) boot(v *server, works bool) {
	switch {
	case !works:
		v.boots = s.now.Add(2 * time.Minute)
		if !v.broken.IsZero() && s.now.Sub(v.broken) > 10*time.Minute {
			s.discard(v)
		}
	case !s.now.Before(v.boots):
		v.Status.NodeRef, v.Status.Phase = &corev1.ObjectReference{Name: v.Name, UID: v.Node.UID}, ptr.To(v1alpha1.PhaseRunning)
		s.report(v, corev1.ConditionTrue)
	}
}

// report sets condition Ready of a new version of the Node, as a watch delivers it.
func (s *simulation) report(v *server, status corev1.ConditionStatus) {
	node := v.Node.DeepCopy()
	node.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(s.now)}
	v.Node = node
	s.next = s.now
}

// discard deletes a Machine, and the set makes another.
func (s *simulation) discard(v *server) {
	m := v.DeepCopy()
	m.DeletionTimestamp = ptr.To(metav1.NewTime(s.now))
	v.Machine.Machine, v.leaves, v.calm = m, s.now.Add(40*time.Second), false
	s.add(v.Group)
	s.next = s.now
}

// snapshot returns what health sees: all as it is, or a list that is stale, partial or empty.
func (s *simulation) snapshot() *World {
	w := &World{Now: s.now, Began: s.began, Groups: s.groups, Host: func(m *v1alpha1.Machine) string { return m.Labels["host"] }, Settings: Settings{
		Timeout: 10 * time.Minute, MaxReplacing: intstr.FromInt32(1), MaxUnhealthy: 40, Join: 10 * time.Minute,
	}}
	for _, v := range s.order {
		w.Machines = append(w.Machines, *v.Machine)
	}
	if s.now.Before(s.blindTill) {
		w.Stale, s.began = "the API server cannot be reached", s.blindTill
		return w
	}
	switch s.rand.IntN(200) {
	case 0:
		w.Machines = nil
	case 1:
		w.Machines = slices.DeleteFunc(w.Machines, func(Machine) bool { return s.rand.IntN(3) == 0 })
	case 2:
		for i := range w.Machines {
			w.Machines[i].Node = nil
		}
	case 3:
		for i := range w.Machines {
			if s.rand.IntN(5) == 0 {
				w.Machines[i].Node = nil
			}
		}
	case 4: // the watches stand still for a while
		if !s.now.Before(s.frozenTill) {
			s.frozen, s.frozenTill = w.Machines, s.now.Add(time.Duration(s.rand.IntN(60))*time.Minute)
		}
	}
	if s.now.Before(s.frozenTill) {
		w.Machines = slices.Clone(s.frozen)
	}
	for i := range w.Machines {
		n := s.noticed[w.Machines[i].UID]
		w.Machines[i].Noticed, w.Machines[i].Held = n[0], n[1]
	}
	return w
}

// pass does what the controller does.
func (s *simulation) pass() {
	if s.now.Before(s.next) {
		return
	}
	s.passes++
	w := s.snapshot()
	p := Judge(w)
	s.next = s.end
	if !p.NextLook.IsZero() {
		s.next = p.NextLook
	}
	if w.Stale != "" {
		return
	}
	s.remember(&p)
	for _, gp := range p.Groups {
		gp.Group.Replacements = gp.Replacements
	}
	for _, v := range p.Replace {
		live, ok := s.servers[v.Machine.UID]
		if ok && w.StillDue(v, live.Machine.Machine, live.Node, live.Group) {
			s.replace(live, v)
		}
	}
}

func (s *simulation) remember(p *Plan) {
	noticed := map[types.UID][2]time.Time{}
	for _, v := range p.Verdicts {
		if v.Unhealthy {
			n, ok := s.noticed[v.Machine.UID]
			if !ok {
				n[0] = s.now
			}
			if v.Brake.OfMany() {
				n[1] = s.now
			}
			noticed[v.Machine.UID] = n
		}
	}
	s.noticed = noticed
}

// replace checks what health must never do, and deletes the Machine.
func (s *simulation) replace(v *server, why *Verdict) {
	s.replaced++
	switch {
	case s.works(v):
		s.Fatalf("%v: Machine %s works, and is replaced: %s", s.now, v.Name, why.Trouble)
	case v.broken.IsZero():
		s.Fatalf("%v: Machine %s would have come back at %v or %v, and is replaced: %s", s.now, v.Name, v.silentUntil, s.zoneBack[v.zone], why.Trouble)
	case s.now.Sub(v.Node.Status.Conditions[0].LastTransitionTime.Time) < 10*time.Minute:
		s.Fatalf("%v: Machine %s is unhealthy for less than the timeout, and is replaced: %s", s.now, v.Name, why.Trouble)
	}
	if !v.broken.IsZero() {
		s.slowest = max(s.slowest, s.now.Sub(v.broken))
	}
	s.discard(v)
}

func TestNinetyDays(t *testing.T) {
	for seed := range uint64(1) {
		t.Run(fmt.Sprintf("in 90 days no Machine that works is lost, and none of a zone that comes back; what is broken is replaced (MCM-48, CAPI-49), seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, seed)
			for s.now.Before(s.end) {
				s.happen()
				s.pass()
				s.noneForgotten()
			}
			t.Logf("%d events, %d hosts and %d zones failed, %d passes, %d Machines replaced; the slowest after %v", s.events, s.hosts, s.outages, s.passes, s.replaced, s.slowest)
			if s.replaced < 300 || s.outages < 3 || s.hosts < 10 {
				t.Errorf("too little happened: %d replaced, %d zones, %d hosts", s.replaced, s.outages, s.hosts)
			}
		})
	}
}

// noneForgotten checks that no broken Machine stays for longer than all troubles together may hold it.
func (s *simulation) noneForgotten() {
	if s.now.Sub(noon)%time.Hour != 0 {
		return
	}
	for _, v := range s.order {
		if !v.broken.IsZero() && s.now.Sub(v.broken) > 24*time.Hour {
			s.Fatalf("%v: Machine %s is broken since %v and was not replaced", s.now, v.Name, v.broken)
		}
	}
}
