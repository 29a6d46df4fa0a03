package verdict

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// simulation is a cluster whose Machines come and go, some without what they have, while what is read of it fails in every way.
type simulation struct {
	*testing.T
	random *rand.Rand
	now    time.Time
	next   int
	// machines are the numbers of those that exist. resources are what exists in the cloud, by ID.
	machines  []int
	resources map[string]cloud.Resource
	seen      map[types.UID]Sighting
	since     time.Time
	memory    Memory
	// calm counts the passes in a row without trouble; orphans counts those since each resource lost its Machine.
	calm    int
	orphans map[string]int
	holding int
	deleted int
}

func newSimulation(t *testing.T, machines int) *simulation {
	s := &simulation{
		T: t, random: rand.New(rand.NewPCG(1, 2)), now: noon, resources: map[string]cloud.Resource{},
		seen: map[types.UID]Sighting{}, since: noon, memory: remembers(), orphans: map[string]int{},
	}
	for range machines {
		s.create()
	}
	return s
}

// create makes a Machine with a server, a port on it, and a floating IP.
func (s *simulation) create() {
	n := s.next
	s.next++
	s.machines, s.seen[number(n)] = append(s.machines, n), Sighting{Exists: true}
	server, port := serverOf(n), portOf(n)
	server.Seen, server.Created, port.Seen, port.UsedBy = s.now, s.now, s.now, server.ID
	ip := port
	ip.Kind, ip.ID = cloud.ResourceFloatingIP, fmt.Sprintf("ip-%d", n)
	for _, r := range []cloud.Resource{server, port, ip} {
		s.resources[r.ID] = r
	}
}

// end takes a Machine away, with all that it has or without.
func (s *simulation) end(withAll bool) {
	at := s.random.IntN(len(s.machines))
	n := s.machines[at]
	s.machines = slices.Delete(s.machines, at, at+1)
	s.seen[number(n)] = Sighting{Leaving: true}
	for _, id := range []string{string(keyOf(n)), portOf(n).ID, fmt.Sprintf("ip-%d", n)} {
		if withAll {
			delete(s.resources, id)
		} else {
			s.orphans[id] = 0
		}
	}
}

// read returns what a pass reads when all goes well.
func (s *simulation) read() *Snapshot {
	out := &Snapshot{
		Now: s.now, ClusterID: cluster, Settings: Settings{Age: period, MaxPerPass: 10}, Projects: []cloud.Project{{Name: "p"}},
		Machines: Machines{Version: fmt.Sprint(s.now.Unix())}, History: History{Since: s.since, Seen: maps.Clone(s.seen)},
	}
	for _, n := range s.machines {
		out.Machines.All = append(out.Machines.All, machineOf(n))
	}
	out.Projects[0].Resources = slices.AppendSeq(make([]cloud.Resource, 0, len(s.resources)), maps.Values(s.resources))
	return out
}

// spoil makes something of what was read wrong, in about every tenth pass, and reports whether it did.
func (s *simulation) spoil(out *Snapshot) bool {
	part := func() {
		s.random.Shuffle(len(out.Machines.All), func(a, b int) {
			out.Machines.All[a], out.Machines.All[b] = out.Machines.All[b], out.Machines.All[a]
		})
		out.Machines.All = out.Machines.All[:s.random.IntN(len(out.Machines.All))]
	}
	switch s.random.IntN(100) {
	case 0, 1:
		out.Stale = "the API server does not answer"
	case 2:
		out.Machines.Failed = "timeout"
		part()
	case 3:
		out.Machines.All = nil
	case 4, 5:
		part()
	case 6:
		// The watch was interrupted and lists the same part.
		part()
		there := map[types.UID]bool{}
		for i := range out.Machines.All {
			there[out.Machines.All[i].UID] = true
		}
		for uid, seen := range out.History.Seen {
			if seen.Exists && !there[uid] {
				out.History.Seen[uid] = Sighting{}
			}
		}
	case 7:
		out.Projects[0].Unknown = "the last list failed"
	case 8:
		out.Projects[0].Held = "many servers are gone"
	default:
		return false
	}
	return true
}

// live lets a period pass: Machines come and go, and now and then another process leads.
func (s *simulation) live() {
	s.now = s.now.Add(period)
	for range s.random.IntN(4) {
		s.end(true)
		s.create()
	}
	if s.random.IntN(20) == 0 {
		s.end(false)
		s.create()
	}
	if s.random.IntN(300) == 0 {
		s.memory, s.since = Memory{Stored: s.memory.Stored}, s.now
		maps.DeleteFunc(s.seen, func(_ types.UID, seen Sighting) bool { return !seen.Exists })
	}
}

// pass makes one pass, carries out what it decides, and checks it. A person confirms a hold after a day, when all is well.
func (s *simulation) pass() {
	s.Helper()
	snapshot := s.read()
	trouble := s.spoil(snapshot)
	snapshot.Confirmed = !trouble && s.holding > 96
	var v Verdict
	v, s.memory = Judge(snapshot, s.memory)
	s.holding++
	if s.memory.Stored.Hold.Reason == "" {
		s.holding = 0
	}
	s.calm++
	if trouble || len(v.Stops) > 0 {
		s.calm = 0
	}
	for _, o := range v.Orphans {
		if o.Delete {
			s.delete(o)
		}
	}
	for id := range s.orphans {
		if s.orphans[id] = min(s.orphans[id]+1, s.calm); s.orphans[id] > 4 {
			s.Fatalf("%s: %s is left after %d passes without trouble", s.now, id, s.orphans[id])
		}
	}
}

func (s *simulation) delete(o Orphan) {
	s.Helper()
	if _, orphan := s.orphans[o.ID]; !orphan {
		s.Fatalf("%s: %s %s of %s is deleted, whose Machine exists", s.now, o.Kind, o.ID, o.Machine)
	}
	if o.Resource.UsedBy != "" {
		s.Fatalf("%s: %s is deleted while a server has it", s.now, o.ID)
	}
	delete(s.resources, o.ID)
	delete(s.orphans, o.ID)
	s.deleted++
	for id, r := range s.resources {
		if r.UsedBy == o.ID {
			r.UsedBy = ""
			s.resources[id] = r
		}
	}
}

func TestNinetyDays(t *testing.T) {
	t.Run("of 500 Machines and lists that fail, are empty, partial or stale: nothing that has a Machine is deleted, and no orphan stays (MCM-81, MCM-82, CAPI-59)", func(t *testing.T) {
		s := newSimulation(t, 500)
		for range 90 * 24 * 4 {
			s.live()
			s.pass()
		}
		if s.deleted < 1000 {
			t.Errorf("only %d orphans were deleted", s.deleted)
		}
		t.Logf("%d orphans were deleted, %d are left", s.deleted, len(s.orphans))
	})
}
