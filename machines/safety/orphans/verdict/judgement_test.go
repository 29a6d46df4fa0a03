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

// Each row is about one check. Without that check, a resource in the row's cluster would be deleted.
func TestWhichChecksStopTheDeletionOfOrphans(t *testing.T) {
	for name, tc := range map[string]struct {
		machines int
		memory   func(*Memory)
		change   func(pass int, s *Snapshot)
		want     Reason
		// deletes lists the deletions of the last round; empty means that there are none.
		deletes []string
	}{
		"two servers without Machines are deleted when no check stops the deletion (MCM-81)": {10, nil,
			func(_ int, s *Snapshot) { s.drop(2, false) }, "", []string{"server-8", "server-9"}},
		"nothing is deleted while reads from the API server may be out of date (MCM-80)": {30, nil,
			func(_ int, s *Snapshot) {
				s.drop(29, false)
				s.Confirmed, s.Stale = true, "the API server does not answer"
			}, Stale, nil},
		"nothing is deleted while the list of Machines is incomplete (MCM-82)": {30, nil,
			func(_ int, s *Snapshot) {
				s.drop(20, false)
				s.Confirmed, s.Machines.Failed = true, "timeout after page 1"
			}, Unreadable, nil},
		"nothing is deleted while there is no Machine at all, even with a confirmation (MCM-82)": {30, nil,
			func(_ int, s *Snapshot) { s.drop(30, false); s.Confirmed = true }, NoMachines, nil},
		"nothing is deleted when more than 3 Machines and more than 20 % vanish and no watch event showed their deletion (MCM-82)": {10, nil,
			func(pass int, s *Snapshot) {
				s.Projects[0].Resources = slices.DeleteFunc(s.Projects[0].Resources, func(r cloud.Resource) bool { return r.Machine == number(9) })
				if pass > 0 {
					s.drop(4, true)
				}
			}, Lost, nil},
		"nothing is deleted when the list of Machines is older than the previous list, as after a restore of etcd (MCM-82)": {10, nil,
			func(pass int, s *Snapshot) {
				s.drop(2, false)
				if pass > 0 {
					s.Machines.Version = "7"
				}
			}, Older, nil},
		"the resources of a few vanished Machines are kept when no watch event showed the Machines' deletion (MCM-82)": {30, nil,
			func(pass int, s *Snapshot) {
				if pass > 0 {
					s.drop(2, true)
				}
			}, "", nil},
		"a resource is kept when the list of Machines lacks its Machine but the watch still shows it (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(3, true)
				for n := range 3 {
					s.History.Seen[number(9-n)] = Sighting{Exists: true}
				}
			}, "", nil},
		"nothing is deleted when more than 3 servers and more than 10 % of all servers have no Machine (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) { s.drop(4, false) }, TooMany, nil},
		"nothing is deleted when more than 3 servers and more than 10 % of one project's servers have no Machine (MCM-82)": {10, nil,
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
		"nothing is deleted when servers without a Machine are few in each project but too many in total (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(2, false)
				for n, place := range []string{"q", "r"} {
					s.Projects = append(s.Projects, cloud.Project{Name: place, Place: place, Resources: []cloud.Resource{serverOf(30 + 2*n), serverOf(31 + 2*n)}})
				}
			}, TooMany, nil},
		"nothing is deleted in any project when two projects have too many servers without a Machine (MCM-82)": {60, nil,
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
		"nothing is deleted when a server was created while this cluster had no leader, as another cluster may have the same ID (MCM-82)": {10,
			func(m *Memory) {
				m.Stored = m.Stored.WithUnled(Span{noon.Add(-30 * time.Hour), noon.Add(-time.Hour)})
			},
			func(_ int, s *Snapshot) { s.drop(2, false); s.unseen(8, 9) }, Forgotten, nil},
		"nothing is deleted when a server appears for a Machine that this leader never saw, as a clone of the cluster may exist (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(1, false)
				s.unseen(9)
				s.has(cloud.Resource{Kind: cloud.ResourceServer, ID: "clone", Key: "clone", Machine: "of the clone", Seen: noon.Add(-20 * time.Minute), Created: noon.Add(-20 * time.Minute)})
			}, Foreign, nil},
		"nothing is deleted when a floating IP was created while there was no leader (MCM-82)": {10,
			func(m *Memory) {
				m.Stored = m.Stored.WithUnled(Span{noon.Add(-30 * time.Hour), noon.Add(-20 * time.Hour)})
			},
			func(_ int, s *Snapshot) {
				s.drop(2, false)
				s.has(cloud.Resource{Kind: cloud.ResourceFloatingIP, ID: "ip", Machine: "of the clone", Seen: noon, Created: noon.Add(-24 * time.Hour)})
			}, Forgotten, nil},
		"nothing is deleted when a port is created for a Machine that this leader never saw (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(2, false)
				port := portOf(50)
				port.Created = noon.Add(-20 * time.Minute)
				s.has(port)
			}, Foreign, nil},
		"nothing is deleted when resources have a cluster ID that drover has not used before, as they may be another cluster's (MCM-82)": {10,
			func(m *Memory) { m.Stored.ClusterID = "" }, func(_ int, s *Snapshot) { s.drop(2, false) }, NewID, nil},
		"no Node without a Machine is deleted when drover has not used the cluster ID before (MCM-82, MCM-86)": {10,
			func(m *Memory) { m.Stored.ClusterID = "" }, func(_ int, s *Snapshot) { s.Nodes = []Node{nodeOfMachine(20)} }, NewID, nil},
		"nothing is deleted when the cluster ID has changed (MCM-82)": {10,
			func(m *Memory) { m.Stored.ClusterID = "c0" }, func(_ int, s *Snapshot) { s.drop(2, false) }, NewID, nil},
		"nothing is deleted in a project whose mass-deletion guard holds servers (MCM-82)": {10, nil,
			func(_ int, s *Snapshot) {
				s.drop(3, false)
				s.Confirmed, s.Projects[0].Held = true, "5 of 10 servers are gone"
			}, Held, nil},
		"nothing is deleted in a project with incomplete lists (MCM-80)": {10, nil,
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

// Each row has a tenant's project with a problem, and another project in which two servers have lost their Machines.
func TestATenantsProjectDoesNotStopTheDeletionOfOrphansInOtherProjects(t *testing.T) {
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
		"orphans of other projects are deleted although the tenant's project has a new server of an unknown Machine (MCM-82)":            {created(tenants(1), noon.Add(-20*time.Minute)), Foreign},
		"orphans of other projects are deleted although servers of the tenant's project were created while there was no leader (MCM-82)": {created(tenants(1), noon.Add(-40*time.Hour)), Forgotten},
		"orphans of other projects are deleted although 50 servers of the tenant's project have no Machine (MCM-82)":                     {tenants(50), TooMany},
		"orphans of other projects are deleted although, together with the tenant's servers, too many servers have no Machine (MCM-82)":  {tenants(3), TooMany},
		"orphans of other projects are deleted although the mass-deletion guard holds servers of the tenant's project (MCM-82)":          {cloud.Project{Name: "t", Place: "tenant", Held: "5 of 10 are gone"}, Held},
		"orphans of other projects are deleted although the resources of the tenant's project cannot be listed (MCM-80)":                 {cloud.Project{Name: "t", Place: "tenant", Unknown: "the last list failed"}, Incomplete},
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
	t.Run("orphans of other projects are deleted although too many Nodes with servers in the tenant's project have no Machine (MCM-86)", func(t *testing.T) {
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
	t.Run("an orphan is deleted although a server in the tenant's project has the owner tag of the same Machine (MCM-84)", func(t *testing.T) {
		v, _ := passes{count: 2, memory: remembers(), change: func(_ int, s *Snapshot) {
			s.has(portOf(50))
			s.Projects = append(s.Projects, created(tenants(1), noon.Add(-20*time.Minute)))
		}}.run(func() *Snapshot { return world(10) })
		expect(t, v, []string{"port-50"}, Foreign)
	})
}

func TestTheDeletionOfOrphansInAProjectStaysStoppedUntilAConfirmation(t *testing.T) {
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
	t.Run("the deletion stops in each project with a server of another cluster, until an operator confirms (MCM-82)", func(t *testing.T) {
		v, m := held(2)
		expect(t, v, []string{"server-2998", "server-2999"}, Foreign, Foreign)
		_, m = passes{count: 1, memory: m, change: func(_ int, s *Snapshot) { s.Confirmed = true }}.run(func() *Snapshot { return world(10) })
		if len(m.Stored.Holds) > 0 {
			t.Errorf("still held: %v", m.Stored.Holds)
		}
	})
	t.Run("the deletion stays stopped while the project is missing from drover's list of projects (MCM-82)", func(t *testing.T) {
		_, m := held(1)
		_, m = passes{count: 1, memory: m}.run(func() *Snapshot { return world(10) })
		if len(m.Stored.Holds) != 1 || m.Stored.Holds[0].Place != "tenant 0" {
			t.Errorf("held: %v", m.Stored.Holds)
		}
	})
	t.Run("the deletion stays stopped in only this project when the URL of the project's Keystone changes (MCM-82)", func(t *testing.T) {
		stored := Stored{ClusterID: cluster, Holds: []hold{{site{Place: "https://old R1 id"}, Stop{Reason: Foreign, Message: "of another cluster"}}}}
		const newURL, otherProject = "https://new/v3 R1 id", "https://old R1 other"
		for place, want := range map[string][]string{newURL: nil, otherProject: {"server-8", "server-9"}} {
			v, _ := passes{count: 3, memory: Memory{Stored: stored}, change: func(_ int, s *Snapshot) {
				s.drop(2, false)
				s.Projects[0].Place = place
			}}.run(func() *Snapshot { return world(10) })
			expect(t, v, want, Foreign)
		}
	})
	t.Run("the deletion stops in all projects when it would be stopped in more projects than drover can store (MCM-82)", func(t *testing.T) {
		v, m := held(mostHolds + 1)
		if len(m.Stored.Holds) != mostHolds || m.Stored.Hold.Reason != Foreign || len(deleted(v)) > 0 {
			t.Errorf("%d are held, and all for %q; %v are deleted", len(m.Stored.Holds), m.Stored.Hold.Reason, deleted(v))
		}
	})
	t.Run("the project and the reason of a stopped deletion are stored, and read back unchanged (MCM-82)", func(t *testing.T) {
		_, m := held(1)
		text, err := json.Marshal(m.Stored)
		var back Stored
		if err != nil || json.Unmarshal(text, &back) != nil || !reflect.DeepEqual(back, m.Stored) {
			t.Errorf("stored is %s, and read back %+v: %v", text, back, err)
		}
	})
}

func TestAStoppedDeletionOfOrphansStaysStoppedAfterARestart(t *testing.T) {
	two := passes{count: 2, memory: remembers(), change: func(pass int, s *Snapshot) {
		s.drop(2, false)
		if pass > 0 {
			s.Machines.Version = "7"
		}
	}}
	fresh := func() *Snapshot { return world(10) }
	_, m := two.run(fresh)
	gone := func(_ int, s *Snapshot) { s.drop(2, false) }
	t.Run("a new leader reads the stored reason for the stop and deletes nothing, although its own lists of Machines are in order (MCM-82)", func(t *testing.T) {
		v, _ := passes{count: 3, memory: Memory{Stored: m.Stored}, change: gone}.run(fresh)
		expect(t, v, nil, Older)
	})
	t.Run("a new leader deletes orphans again when an operator confirms (MCM-82)", func(t *testing.T) {
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

func TestWhenVanishedMachinesCountAsLost(t *testing.T) {
	fresh := func() *Snapshot { return world(10) }
	t.Run("vanished Machines count as lost until a list shows them again, and their resources are kept meanwhile (MCM-82)", func(t *testing.T) {
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
	t.Run("the Machines that vanish within a day are counted together, and stop the deletion of orphans when they are too many (MCM-82)", func(t *testing.T) {
		v, _ := passes{count: 4, memory: remembers(), change: func(pass int, s *Snapshot) {
			s.drop(pass, true)
			s.Projects[0].Resources = nil
			if pass == 3 {
				s.drop(1, true)
			}
		}}.run(fresh)
		expect(t, v, nil, Lost)
	})
	t.Run("Machines do not count as lost when the API server reported their deletion, however many they are (MCM-82)", func(t *testing.T) {
		v, _ := passes{count: 2, memory: remembers(), change: func(pass int, s *Snapshot) {
			if pass > 0 {
				s.drop(9, false)
				s.Projects[0].Resources = s.Projects[0].Resources[:2]
			}
		}}.run(fresh)
		expect(t, v, nil)
	})
}

func TestWhenANewClusterIDIsAccepted(t *testing.T) {
	m := Memory{}
	t.Run("a new cluster ID is accepted in the first round that finds no orphan (MCM-82)", func(t *testing.T) {
		var v Verdict
		v, m = passes{count: 1, memory: m}.run(func() *Snapshot { return world(3) })
		expect(t, v, nil)
		if m.Stored.ClusterID != cluster {
			t.Errorf("stored is %+v", m.Stored)
		}
	})
	t.Run("a new cluster ID is not accepted while projects are unknown or not listed, or the mass-deletion guard holds servers (MCM-82)", func(t *testing.T) {
		for name, change := range map[string]func(*Snapshot){
			"a new cluster ID is not accepted while no project is known":                                  func(s *Snapshot) { s.Projects = nil },
			"a new cluster ID is not accepted while one project is not listed yet":                        func(s *Snapshot) { s.Projects = append(s.Projects, cloud.Project{Unknown: "not listed yet"}) },
			"a new cluster ID is not accepted while the mass-deletion guard holds servers of one project": func(s *Snapshot) { s.Projects = append(s.Projects, cloud.Project{Held: "many are gone"}) },
		} {
			v, after := passes{count: 1, change: func(_ int, s *Snapshot) { change(s) }}.run(func() *Snapshot { return world(3) })
			if after.Stored.ClusterID != "" || len(v.Stops) > 0 {
				t.Errorf("%s: stored %+v, and with nothing to collect it complains: %v", name, after.Stored, v.Stops)
			}
		}
	})
}

// A clone of the cluster took over at noon, with a lease that was last renewed an hour earlier. The original cluster has
// created servers all that time, and still does.
func TestServersWithoutAMachineInAClusterThatWasRestoredFromABackup(t *testing.T) {
	from, to := noon.Add(-time.Hour), noon
	for name, tc := range map[string]struct {
		born time.Time
		want Reason
	}{
		"a server is kept when it was created 90 s before the backup, because the cloud's clock may be slow (MCM-82)": {from.Add(-90 * time.Second), Forgotten},
		"a server is kept when it was created right after the backup (MCM-82)":                                        {from.Add(90 * time.Second), Forgotten},
		"a server is kept when it was created right before drover started in the restored cluster (MCM-82)":           {to.Add(-90 * time.Second), Forgotten},
		"a server is kept when it was created right after drover started in the restored cluster (MCM-82)":            {to.Add(90 * time.Second), Forgotten},
		"a server is kept when it was created three minutes after drover started in the restored cluster (MCM-82)":    {to.Add(3 * time.Minute), Foreign},
		"a server is deleted when it was created an hour before the backup (MCM-81)":                                  {from.Add(-time.Hour), ""},
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

func TestAServerCreatedAtAChangeOfLeaderIsKept(t *testing.T) {
	for name, later := range map[string]time.Duration{
		"the server is kept when it was created 30 s after the change of leader for a Machine that the new leader never saw (MCM-82)":      30 * time.Second,
		"the server is kept when it was created a minute before the change of leader for a Machine that the new leader never saw (MCM-82)": -time.Minute,
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
