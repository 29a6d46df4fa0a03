package verdict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
)

// Each row is a cluster of which something would be deleted without the guard that the row is about.
func TestGuards(t *testing.T) {
	for name, tc := range map[string]struct {
		machines int
		memory   func(*Memory)
		change   func(pass int, s *Snapshot)
		want     Reason
		// deletes are those in the last pass; empty: none.
		deletes []string
	}{
		"without any guard two servers that lost their Machines are collected (MCM-81)": {10, nil,
			func(_ int, s *Snapshot) { s.drop(2, false) }, "", []string{"server-8", "server-9"}},
		"nothing while what was read may be out of date (MCM-80)": {30, nil,
			func(_ int, s *Snapshot) {
				s.drop(29, false)
				s.Confirmed, s.Stale = true, "the API server does not answer"
			}, Stale, nil},
		"nothing while the Machines cannot be listed, however many pages came (MCM-82)": {30, nil,
			func(_ int, s *Snapshot) {
				s.drop(20, false)
				s.Confirmed, s.Machines.Failed = true, "timeout after page 1"
			}, Unreadable, nil},
		"nothing while there is no Machine at all, also when an operator has confirmed it (MCM-82)": {30, nil,
			func(_ int, s *Snapshot) { s.drop(30, false); s.Confirmed = true }, NoMachines, nil},
		"nothing when more than max(3, 20 %) of the Machines vanish without a word (MCM-82)": {10, nil,
			func(pass int, s *Snapshot) {
				s.Projects[0].Resources = slices.DeleteFunc(s.Projects[0].Resources, func(r cloud.Resource) bool { return r.Machine == number(9) })
				if pass > 0 {
					s.drop(4, true)
				}
			}, Lost, nil},
		"nothing when the list of Machines is older than the one before, as of a restored etcd (MCM-82)": {10, nil,
			func(pass int, s *Snapshot) {
				s.drop(2, false)
				if pass > 0 {
					s.Machines.Version = "7"
				}
			}, Older, nil},
		"nothing of a few Machines that vanish without a word: their lists and the watch may lack the same ones (MCM-82)": {30, nil,
			func(pass int, s *Snapshot) {
				if pass > 0 {
					s.drop(2, true)
				}
			}, "", nil},
		"nothing of a Machine that the watch still shows, whatever a list lacks (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(3, true)
				for n := range 3 {
					s.History.Seen[number(9-n)] = Sighting{Exists: true}
				}
			}, "", nil},
		"nothing when more than max(3, 10 %) of the servers have no Machine (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) { s.drop(4, false) }, TooMany, nil},
		"nothing when that holds in one project only, however many servers another one has (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(4, false)
				tenant := cloud.Project{Name: "tenant", Place: "tenant"}
				for n := range 100 {
					r := serverOf(1000 + n)
					r.Machine = number(0)
					tenant.Resources = append(tenant.Resources, r)
				}
				s.Projects = append(s.Projects, tenant)
			}, TooMany, nil},
		"nothing when it holds for all projects together, also without the worst one (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(2, false)
				for n, place := range []string{"q", "r"} {
					s.Projects = append(s.Projects, cloud.Project{Name: place, Place: place, Resources: []cloud.Resource{serverOf(30 + 2*n), serverOf(31 + 2*n)}})
				}
			}, TooMany, nil},
		"nothing anywhere when it holds in two projects (MCM-82)": {60, nil,
			func(_ int, s *Snapshot) {
				s.drop(2, false)
				for n, place := range []string{"q", "r"} {
					q := cloud.Project{Name: place, Place: place}
					for k := range 4 {
						q.Resources = append(q.Resources, serverOf(100+10*n+k))
					}
					s.Projects = append(s.Projects, q)
				}
			}, TooMany, nil},
		"nothing when a server was created while nobody led, as yesterday's etcd beside today's servers (MCM-82)": {10,
			func(m *Memory) {
				m.Stored = m.Stored.WithUnled(Span{noon.Add(-30 * time.Hour), noon.Add(-time.Hour)})
			},
			func(_ int, s *Snapshot) { s.drop(2, false); s.unseen(8, 9) }, Forgotten, nil},
		"nothing when a server is created while this process leads, for a Machine that it never saw, as by a cloned cluster (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(1, false)
				s.unseen(9)
				s.has(cloud.Resource{Kind: cloud.ResourceServer, ID: "clone", Key: "clone", Machine: "of the clone", Seen: noon.Add(-20 * time.Minute), Created: noon.Add(-20 * time.Minute)})
			}, Foreign, nil},
		"nothing when a floating IP was created while nobody led (MCM-82)": {10,
			func(m *Memory) {
				m.Stored = m.Stored.WithUnled(Span{noon.Add(-30 * time.Hour), noon.Add(-20 * time.Hour)})
			},
			func(_ int, s *Snapshot) {
				s.drop(2, false)
				s.has(cloud.Resource{Kind: cloud.ResourceFloatingIP, ID: "ip", Machine: "of the clone", Seen: noon, Created: noon.Add(-24 * time.Hour)})
			}, Forgotten, nil},
		"nothing when a port is created while this process leads, for a Machine that it never saw (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(2, false)
				port := portOf(50)
				port.Created = noon.Add(-20 * time.Minute)
				s.has(port)
			}, Foreign, nil},
		"nothing when the cluster ID is new and something has its marks (MCM-82)": {10,
			func(m *Memory) { m.Stored.ClusterID = "" }, func(_ int, s *Snapshot) { s.drop(2, false) }, NewID, nil},
		"no Node either when the cluster ID is new (MCM-82, MCM-86)": {10,
			func(m *Memory) { m.Stored.ClusterID = "" }, func(_ int, s *Snapshot) { s.Nodes = []Node{nodeOfMachine(20)} }, NewID, nil},
		"nothing when the cluster ID is another one than before (MCM-82)": {10,
			func(m *Memory) { m.Stored.ClusterID = "c0" }, func(_ int, s *Snapshot) { s.drop(2, false) }, NewID, nil},
		"nothing of a project whose mass-deletion guard holds something (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(3, false)
				s.Confirmed, s.Projects[0].Held = true, "5 of 10 servers are gone"
			}, Held, nil},
		"nothing of a project that is not completely known (MCM-80)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(3, false)
				s.Confirmed, s.Projects[0].Unknown = true, "the last list failed"
			}, Incomplete, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := passes{count: 3, memory: remembers(), change: tc.change}
			if tc.memory != nil {
				tc.memory(&p.memory)
			}
			v, _ := p.run(func() *Snapshot { return world(tc.machines) })
			if tc.want == "" {
				expect(t, v, tc.deletes)
				return
			}
			expect(t, v, tc.deletes, tc.want)
		})
	}
}

// Each row is a project of a tenant in which something is wrong, beside one in which two servers lost their Machines.
func TestATenantStopsNobodyElse(t *testing.T) {
	tenants := func(n int) cloud.Project {
		p := cloud.Project{Name: "the tenant's", Place: "tenant"}
		for k := range n {
			p.Resources = append(p.Resources, serverOf(50+k))
		}
		return p
	}
	created := func(p cloud.Project, at time.Time) cloud.Project {
		for i := range p.Resources {
			p.Resources[i].Created = at
		}
		return p
	}
	for name, tc := range map[string]struct {
		project cloud.Project
		want    Reason
	}{
		"by servers of which nobody knows, created while this process leads (MCM-82)": {created(tenants(1), noon.Add(-20*time.Minute)), Foreign},
		"by servers created while nobody led (MCM-82)":                                {created(tenants(1), noon.Add(-40*time.Hour)), Forgotten},
		"by very many servers without a Machine (MCM-82)":                             {tenants(50), TooMany},
		"by so many that they are too many with those of others (MCM-82)":             {tenants(3), TooMany},
		"by what the mass-deletion guard of its project holds (MCM-82)":               {cloud.Project{Name: "t", Place: "tenant", Held: "5 of 10 are gone"}, Held},
		"by lists that fail (MCM-80)":                                                 {cloud.Project{Name: "t", Place: "tenant", Unknown: "the last list failed"}, Incomplete},
	} {
		t.Run(name, func(t *testing.T) {
			m := remembers()
			m.Stored = m.Stored.WithUnled(Span{noon.Add(-41 * time.Hour), noon.Add(-39 * time.Hour)})
			v, after := passes{count: 3, memory: m, change: func(_ int, s *Snapshot) {
				s.drop(2, false)
				s.Projects = append(s.Projects, tc.project)
				s.Nodes = []Node{nodeOfMachine(20)}
			}}.run(func() *Snapshot { return world(10) })
			expect(t, v, []string{"server-8", "server-9", "worker-20"}, tc.want)
			for _, o := range v.Orphans {
				if o.Resource.Machine != "" && !o.Delete && o.Resource.UsedBy == "" && o.Kind == string(cloud.ResourceServer) && o.Stopped != tc.want {
					t.Errorf("%s is not deleted for %q (%s), want %s", o.ID, o.Stopped, o.Why, tc.want)
				}
			}
			successor, _ := passes{count: 3, memory: Memory{Stored: after.Stored, Servers: m.Servers}, change: func(_ int, s *Snapshot) { s.drop(1, false); s.Projects = append(s.Projects, tc.project) }}.run(func() *Snapshot { return world(10) })
			expect(t, successor, []string{"server-9"}, tc.want)
		})
	}
	t.Run("by Nodes without Machines, whose servers were in its project (MCM-86)", func(t *testing.T) {
		m := remembers()
		for n := range 5 {
			m.Servers[keyOf(30+n)] = []site{{Place: "tenant"}}
		}
		v, _ := passes{count: 3, memory: m, change: func(_ int, s *Snapshot) {
			s.Projects = append(s.Projects, cloud.Project{Name: "the tenant's", Place: "tenant"})
			s.Nodes = []Node{nodeOfMachine(20)}
			for n := range 5 {
				s.Nodes = append(s.Nodes, nodeOfMachine(30+n))
			}
		}}.run(func() *Snapshot { return world(10) })
		expect(t, v, []string{"worker-20"}, TooManyNodes)
	})
	t.Run("by a server that has the mark of another one's Machine (MCM-84)", func(t *testing.T) {
		v, _ := passes{count: 2, memory: remembers(), change: func(_ int, s *Snapshot) {
			s.has(portOf(50))
			s.Projects = append(s.Projects, created(tenants(1), noon.Add(-20*time.Minute)))
		}}.run(func() *Snapshot { return world(10) })
		expect(t, v, []string{"port-50"}, Foreign)
	})
}

func TestProjectsThatAreHeld(t *testing.T) {
	stranger := func(place string, n int) cloud.Project {
		r := serverOf(n)
		r.Created = noon.Add(-20 * time.Minute)
		return cloud.Project{Name: place, Place: place, Resources: []cloud.Resource{r}}
	}
	held := func(count int) (Verdict, Memory) {
		return passes{count: 3, memory: remembers(), change: func(_ int, s *Snapshot) {
			s.drop(2, false)
			for n := range count {
				s.Projects = append(s.Projects, stranger(fmt.Sprint("tenant ", n), 5000+n))
			}
		}}.run(func() *Snapshot { return world(3000) })
	}
	t.Run("are each held, and an operator's confirmation ends all of that (MCM-82)", func(t *testing.T) {
		v, m := held(2)
		expect(t, v, []string{"server-2998", "server-2999"}, Foreign, Foreign)
		_, m = passes{count: 1, memory: m, change: func(_ int, s *Snapshot) { s.Confirmed = true }}.run(func() *Snapshot { return world(10) })
		if len(m.Stored.Holds) > 0 {
			t.Errorf("still held: %v", m.Stored.Holds)
		}
	})
	t.Run("are held also while they are not known (MCM-82)", func(t *testing.T) {
		_, m := held(1)
		_, m = passes{count: 1, memory: m}.run(func() *Snapshot { return world(10) })
		if len(m.Stored.Holds) != 1 || m.Stored.Holds[0].Place != "tenant 0" {
			t.Errorf("held: %v", m.Stored.Holds)
		}
	})
	t.Run("stay held when the URL of their Keystone changes, and hold no other project (MCM-82)", func(t *testing.T) {
		stored := Stored{ClusterID: cluster, Holds: []hold{{site{Place: "https://old R1 id"}, Stop{Reason: Foreign, Message: "of another cluster"}}}}
		for place, want := range map[string][]string{"https://new/v3 R1 id": nil, "https://old R1 other": {"server-8", "server-9"}} {
			v, _ := passes{count: 3, memory: Memory{Stored: stored}, change: func(_ int, s *Snapshot) {
				s.drop(2, false)
				s.Projects[0].Place = place
			}}.run(func() *Snapshot { return world(10) })
			expect(t, v, want, Foreign)
		}
	})
	t.Run("stop all when they are very many (MCM-82)", func(t *testing.T) {
		v, m := held(mostHolds + 1)
		if len(m.Stored.Holds) != mostHolds || m.Stored.Hold.Reason != Foreign || len(deleted(v)) > 0 {
			t.Errorf("%d are held, and all for %q; %v are deleted", len(m.Stored.Holds), m.Stored.Hold.Reason, deleted(v))
		}
	})
	t.Run("are stored with their reason (MCM-82)", func(t *testing.T) {
		_, m := held(1)
		text, err := json.Marshal(m.Stored)
		var back Stored
		if err != nil || json.Unmarshal(text, &back) != nil || !reflect.DeepEqual(back, m.Stored) {
			t.Errorf("stored is %s, and read back %+v: %v", text, back, err)
		}
	})
}

func TestWhatIsHeldOutlivesPassesAndProcesses(t *testing.T) {
	two := passes{count: 2, memory: remembers(), change: func(pass int, s *Snapshot) {
		s.drop(2, false)
		if pass > 0 {
			s.Machines.Version = "7"
		}
	}}
	fresh := func() *Snapshot { return world(10) }
	_, m := two.run(fresh)
	gone := func(_ int, s *Snapshot) { s.drop(2, false) }
	t.Run("a successor that knows what is stored alone collects nothing (MCM-82)", func(t *testing.T) {
		v, _ := passes{count: 3, memory: Memory{Stored: m.Stored}, change: gone}.run(fresh)
		expect(t, v, nil, Older)
	})
	t.Run("an operator's confirmation ends it (MCM-82)", func(t *testing.T) {
		v, after := passes{count: 2, memory: Memory{Stored: m.Stored}, change: func(pass int, s *Snapshot) {
			gone(pass, s)
			s.Confirmed = pass == 0
		}}.run(fresh)
		expect(t, v, []string{"server-8", "server-9"})
		if after.Stored.Hold.Reason != "" {
			t.Errorf("it still holds %+v", after.Stored.Hold)
		}
	})
}

func TestMachinesThatVanish(t *testing.T) {
	fresh := func() *Snapshot { return world(10) }
	t.Run("and are back in the next list are no loss any more, and nothing of them was collected (MCM-82)", func(t *testing.T) {
		v, m := passes{count: 3, memory: remembers(), change: func(pass int, s *Snapshot) {
			if pass == 1 {
				s.drop(6, true)
			}
		}}.run(fresh)
		expect(t, v, nil)
		if m.Stored.Hold.Reason != "" {
			t.Errorf("it still holds %+v", m.Stored.Hold)
		}
	})
	t.Run("a few at a time count together for a day (MCM-82)", func(t *testing.T) {
		v, _ := passes{count: 4, memory: remembers(), change: func(pass int, s *Snapshot) {
			s.drop(pass, true)
			s.Projects[0].Resources = nil
			if pass == 3 {
				s.drop(1, true)
			}
		}}.run(fresh)
		expect(t, v, nil, Lost)
	})
	t.Run("of whose end the API server told are no loss, however many (MCM-82)", func(t *testing.T) {
		v, _ := passes{count: 2, memory: remembers(), change: func(pass int, s *Snapshot) {
			if pass > 0 {
				s.drop(9, false)
				s.Projects[0].Resources = s.Projects[0].Resources[:2]
			}
		}}.run(fresh)
		expect(t, v, nil)
	})
}

func TestANewClusterID(t *testing.T) {
	m := Memory{}
	t.Run("is accepted by the first pass that finds nothing without a Machine (MCM-82)", func(t *testing.T) {
		var v Verdict
		v, m = passes{count: 1, memory: m}.run(func() *Snapshot { return world(3) })
		expect(t, v, nil)
		if m.Stored.ClusterID != cluster {
			t.Errorf("stored is %+v", m.Stored)
		}
	})
	t.Run("is not accepted before all projects are known (MCM-82)", func(t *testing.T) {
		for name, change := range map[string]func(*Snapshot){
			"none is known":    func(s *Snapshot) { s.Projects = nil },
			"one is not":       func(s *Snapshot) { s.Projects = append(s.Projects, cloud.Project{Unknown: "not listed yet"}) },
			"one is held back": func(s *Snapshot) { s.Projects = append(s.Projects, cloud.Project{Held: "many are gone"}) },
		} {
			v, after := passes{count: 1, change: func(_ int, s *Snapshot) { change(s) }}.run(func() *Snapshot { return world(3) })
			if after.Stored.ClusterID != "" || len(v.Stops) > 0 {
				t.Errorf("%s: stored %+v, and with nothing to collect it complains: %v", name, after.Stored, v.Stops)
			}
		}
	})
}

func TestWithUnled(t *testing.T) {
	t.Run("of too many spans the two with the shortest time between them become one, and the time of leaders stays theirs (MCM-82)", func(t *testing.T) {
		var s Stored
		at := noon
		for n := range mostSpans + 1 {
			s = s.WithUnled(Span{at, at.Add(10 * time.Minute)})
			if at = at.Add(24 * time.Hour); n == 7 {
				at = at.Add(-23 * time.Hour)
			}
		}
		joined := noon.Add(7*24*time.Hour + 30*time.Minute)
		if len(s.Unled) != mostSpans || s.Unled[0] != (Span{noon, noon.Add(10 * time.Minute)}) || !s.Unled[7].Contains(joined) {
			t.Errorf("got %d, such as %v", len(s.Unled), s.Unled[:9])
		}
		for _, span := range s.Unled {
			if span.Contains(noon.Add(12 * time.Hour)) {
				t.Errorf("%v has swallowed a time in which somebody led", span)
			}
		}
	})
	for name, tc := range map[string]struct {
		length time.Duration
		want   bool
	}{"a restart": {time.Minute, false}, "a short absence": {90 * time.Second, true}, "a long one": {time.Hour, true}} {
		if got := Matters(Span{noon, noon.Add(tc.length)}); got != tc.want {
			t.Errorf("%s matters: %v", name, got)
		}
	}
	if !Matters(Span{To: noon}) {
		t.Error("nobody is known to have led before, and it does not matter")
	}
}

// A clone took over at noon, with a lease that was renewed an hour before. The first cluster made servers all that time, and still does.
func TestServersBornNearTheEndsOfASpan(t *testing.T) {
	from, to := noon.Add(-time.Hour), noon
	for name, tc := range map[string]struct {
		born time.Time
		want Reason
	}{
		"by a cloud whose clock is late (MCM-82)":                     {from.Add(-90 * time.Second), Forgotten},
		"right after the backup (MCM-82)":                             {from.Add(90 * time.Second), Forgotten},
		"right before the clone takes over (MCM-82)":                  {to.Add(-90 * time.Second), Forgotten},
		"right after the clone has taken over (MCM-82)":               {to.Add(90 * time.Second), Forgotten},
		"some minutes after it has taken over (MCM-82)":               {to.Add(3 * time.Minute), Foreign},
		"an hour before the backup: the clone made them too (MCM-81)": {from.Add(-time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := remembers()
			m.Stored = m.Stored.WithUnled(Span{from, to})
			v, _ := passes{count: 5, memory: m}.run(func() *Snapshot {
				s := world(50)
				s.History.Since = to
				for n := range 3 {
					r := serverOf(100 + n)
					r.Seen, r.Created = noon, tc.born
					s.has(r)
				}
				return s
			})
			if tc.want == "" {
				expect(t, v, []string{"server-100", "server-101", "server-102"})
				return
			}
			expect(t, v, nil, tc.want)
		})
	}
}

func TestAServerBornWhenAProcessTookOver(t *testing.T) {
	for name, later := range map[string]time.Duration{
		"is not collected when this process, which leads since then, never saw its Machine (MCM-82)": 30 * time.Second,
		"is not collected either when the clock of the cloud is a minute late (MCM-82)":              -time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := passes{count: 3, memory: remembers()}.run(func() *Snapshot {
				s := world(50)
				s.History.Since = noon.Add(-30 * time.Minute)
				r := serverOf(100)
				r.Seen, r.Created = s.History.Since, s.History.Since.Add(later)
				s.has(r)
				return s
			})
			expect(t, v, nil, Foreign)
		})
	}
}
