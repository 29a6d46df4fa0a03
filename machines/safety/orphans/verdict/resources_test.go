package verdict

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
)

func TestWhichResourcesAreDeletedAsOrphans(t *testing.T) {
	young := func(r cloud.Resource) cloud.Resource {
		r.Seen, r.Created = noon.Add(10*time.Minute), time.Time{}
		return r
	}
	floatingIP := cloud.Resource{Kind: cloud.ResourceFloatingIP, ID: "ip", Machine: "gone", Seen: noon.Add(-time.Hour)}
	on := func(r cloud.Resource, server string) cloud.Resource {
		r.UsedBy = server
		return r
	}
	for name, tc := range map[string]struct {
		change func(s *Snapshot)
		// want lists the IDs of the deleted orphans. why is a part of the reason why the only other orphan is kept.
		want []string
		why  string
	}{
		"keeps the resources of existing Machines (MCM-81)":     {func(*Snapshot) {}, nil, ""},
		"deletes a server without a Machine (MCM-81, CAPI-59)":  {func(s *Snapshot) { s.drop(1, false) }, []string{"server-9"}, "server server-9 uses it"},
		"keeps a port that is younger than 15 minutes (MCM-81)": {func(s *Snapshot) { s.has(young(portOf(20))) }, nil, "younger than 15m"},
		"keeps an old port whose owner tag was first seen a short time ago (MCM-81)": {func(s *Snapshot) {
			port := young(portOf(20))
			port.Created = noon.Add(-50 * time.Minute)
			s.has(port)
			s.History.Seen[port.Machine] = Sighting{Leaving: true}
		}, nil, "younger than 15m"},
		"keeps the server of a Machine that has no provider ID yet (MCM-83)": {func(s *Snapshot) { s.Machines.All[9].Server, s.Machines.All[9].NodeName = "", "" }, nil, ""},
		"keeps a duplicate of an existing Machine's server, because a duplicate is not an orphan (MCM-83)": {func(s *Snapshot) {
			twin := serverOf(20)
			twin.Machine = number(0)
			s.has(twin)
		}, nil, ""},
		"keeps a server that the provider ID of an existing Machine names (F-1)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Machines.All[0].Server = keyOf(20)
		}, nil, "adopt"},
		"keeps a server with the name of an existing Machine's server (F-1)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Machines.All[0].ServerName = "worker-20"
		}, nil, "adopt"},
		"deletes a floating IP before a port (MCM-84, CAPI-59)":                    {func(s *Snapshot) { s.has(portOf(20), floatingIP) }, []string{"ip", "port-20"}, ""},
		"keeps a port that a server uses (MCM-84)":                                 {func(s *Snapshot) { s.has(on(portOf(20), "server-0")) }, nil, "server server-0 uses it"},
		"keeps a floating IP on a server's port (MCM-84)":                          {func(s *Snapshot) { s.has(on(floatingIP, "server-0")) }, nil, "server server-0 uses it"},
		"keeps a port until the server of the same Machine is gone (MCM-84)":       {func(s *Snapshot) { s.has(serverOf(20), portOf(20)) }, []string{"server-20"}, "waits until the server"},
		"deletes a port without a server when the port's Machine is gone (MCM-84)": {func(s *Snapshot) { s.has(portOf(20)) }, []string{"port-20"}, ""},
		"deletes two ports and keeps the third until the next round when a round may delete two resources (MCM-81)": {func(s *Snapshot) {
			s.MaxPerPass = 2
			s.has(portOf(20), portOf(21), portOf(22))
		}, []string{"port-20", "port-21"}, "next round"},
		"deletes nothing with --orphans=report (CAPI-59)": {func(s *Snapshot) { s.has(portOf(20)); s.ReportOnly = true }, nil, "only reported"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := func() *Snapshot { s := world(10); tc.change(s); return s }
			first, _ := passes{count: 1, memory: remembers()}.run(fresh)
			expect(t, first, nil)
			v, _ := passes{count: 2, memory: remembers()}.run(fresh)
			expect(t, v, tc.want)
			stays := slices.IndexFunc(v.Orphans, func(o Orphan) bool { return !o.Delete })
			if (stays >= 0) != (tc.why != "") || stays >= 0 && !strings.Contains(v.Orphans[stays].Why, tc.why) {
				t.Errorf("want a kept orphan with the reason %q; found %+v", tc.why, v.Orphans)
			}
		})
	}
}

// Twelve servers have lost their Machines, and the cloud never deletes them. Each round may delete ten.
func TestServersWithoutAMachineThatStayForManyRoundsOfTheOrphanCheck(t *testing.T) {
	fresh := func(pass int) *Snapshot {
		s := world(200)
		s.drop(12, false)
		s.has(portOf(900))
		s.Now, s.Machines.Version = noon.Add(time.Duration(pass)*period), strconv.Itoa(1000+pass)
		return s
	}
	pass := func(n int, m Memory, accepts bool) ([]string, Memory) {
		v, m := Judge(fresh(n), m)
		for i := range v.Orphans {
			if o := &v.Orphans[i]; o.Delete && accepts {
				m.Accepted(o, noon.Add(time.Duration(n)*period))
			}
		}
		return deleted(v), m
	}
	t.Run("a server whose deletion the cloud refuses each time does not delay the deletion of others (MCM-81)", func(t *testing.T) {
		tries := map[string]int{}
		m := remembers()
		for n := range 14 {
			var ids []string
			ids, m = pass(n, m, false)
			for _, id := range ids {
				tries[id]++
			}
		}
		for id, n := range tries {
			if len(tries) != 13 || n < 6 {
				t.Errorf("%s was tried %d times: %v", id, n, tries)
			}
		}
	})
	t.Run("a server that still exists after an accepted deletion is deleted again once an hour, and does not delay others (MCM-81)", func(t *testing.T) {
		m := remembers()
		for n, want := range []int{0, 10, 3, 0, 0, 10, 3, 0} {
			var ids []string
			if ids, m = pass(n, m, true); len(ids) != want {
				t.Errorf("round %d requests %d deletions: %v", n, len(ids), ids)
			}
		}
	})
	t.Run("the metric counts a server's deletion once when the cloud accepts it twice, even if the API server was down in between (MCM-81)", func(t *testing.T) {
		v, m := passes{count: 2, memory: remembers()}.run(func() *Snapshot { return fresh(0) })
		o := v.Orphans[slices.IndexFunc(v.Orphans, func(o Orphan) bool { return o.Delete })]
		if !m.Accepted(&o, noon) {
			t.Error("Accepted() = false for the first time")
		}
		s := fresh(2)
		s.Stale = "the API server does not answer"
		_, m = Judge(s, m)
		_, m = Judge(fresh(3), m)
		if m.Accepted(&o, noon.Add(2*time.Hour)) {
			t.Error("Accepted() = true for the second time")
		}
	})
	t.Run("the drain of a server's Node ends at the drain timeout even if a round may delete only one of two servers (MCM-81)", func(t *testing.T) {
		p := passes{memory: remembers(), change: func(_ int, s *Snapshot) {
			s.drop(2, false)
			s.MaxPerPass = 1
			s.Nodes = []Node{nodeOfMachine(8), nodeOfMachine(9)}
		}}
		for count, overdue := range map[int]bool{4: false, 10: true} {
			p.count = count
			if v, _ := p.run(func() *Snapshot { return world(10) }); isOverdue(v.Orphans[0], count) != overdue {
				t.Errorf("in round %d the drain of the first is over: %v", count, !overdue)
			}
		}
	})
}

func TestAnOrphanMustBeFoundInTwoRounds(t *testing.T) {
	fresh := func() *Snapshot { s := world(10); s.has(portOf(20)); return s }
	for name, tc := range map[string]struct {
		count  int
		change func(pass int, s *Snapshot)
		want   []string
	}{
		"keeps an orphan that only one round has found (MCM-81)":         {1, nil, nil},
		"deletes an orphan that two rounds in a row have found (MCM-81)": {2, nil, []string{"port-20"}},
		"keeps an orphan when the rounds that found it were separated by a round without a decision (MCM-80)": {3, func(pass int, s *Snapshot) {
			if pass == 1 {
				s.Stale = "no lease"
			}
		}, nil},
		"keeps an orphan when the rounds that found it were separated by a round in which it had a Machine (MCM-81)": {3, func(pass int, s *Snapshot) {
			if pass == 1 {
				s.Machines.All = append(s.Machines.All, machineOf(20))
			}
			s.History.Seen[number(20)] = Sighting{Leaving: true}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := passes{count: tc.count, memory: remembers(), change: tc.change}.run(fresh)
			expect(t, v, tc.want)
		})
	}
}

func TestWhetherAServerWithoutAMachineIsDeletedAndItsNodeDrained(t *testing.T) {
	ready := func(n Node) Node { n.Ready = true; return n }
	unmarked := func(n Node) Node { n.OwnedBy, n.Machine = "", ""; return n }
	for name, tc := range map[string]struct {
		node   Node
		change func(s *Snapshot)
		drains bool
		why    string
	}{
		"drains the Node before deleting the server (MCM-81)": {ready(nodeOfMachine(9)), nil, true, ""},
		"drains a Node without a provider ID whose label shows the server's Machine (MCM-81)": {func() Node {
			n := ready(nodeOfMachine(9))
			n.ProviderID, n.Server = "", ""
			return n
		}(), nil, true, ""},
		"keeps a server with a working Node that never belonged to a Machine (MCM-81)": {unmarked(ready(nodeOfMachine(9))), nil, false, "never had drover's labels"},
		"keeps a server whose Node never belonged to a Machine and was Ready less than 15 minutes ago (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.Changed = noon.Add(time.Minute)
			return n
		}(), nil, false, "never had drover's labels"},
		"keeps a server when a Ready Node without a provider ID and without labels has the server's name (MCM-81)": {func() Node {
			n := unmarked(ready(nodeOfMachine(9)))
			n.ProviderID, n.Server = "", ""
			return n
		}(), nil, false, "never had drover's labels"},
		"drains the dead Node that has the server's name, even without a provider ID and without labels (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.ProviderID, n.Server = "", ""
			return n
		}(), nil, true, ""},
		"keeps a server when the Node with its name belongs to another server (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.ProviderID, n.Server = "x:///other", "other"
			return n
		}(), nil, false, "has the provider ID x:///other"},
		"keeps a server when the Node with its name has the provider ID of another cloud (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.ProviderID, n.Server = "aws:///i-1", ""
			return n
		}(), nil, false, "has the provider ID aws:///i-1"},
		"deletes a server whose Node is dead and never belonged to a Machine (MCM-81)": {unmarked(nodeOfMachine(9)), nil, true, ""},
		"keeps a server with a working Node when this process never saw its Machine, for example because the CRDs were deleted and created again (MCM-82)": {ready(nodeOfMachine(9)),
			func(s *Snapshot) { s.unseen(9); s.Projects[0].Resources[18].Created = noon.Add(-2 * time.Hour) }, false, "its Machine either was never seen"},
		"keeps a server with a working Node whose Machine was deleted together with the CRD of Machines (MCM-82)": {ready(nodeOfMachine(9)),
			func(s *Snapshot) { s.Defined = noon.Add(-time.Minute) }, false, "deleted together with a CRD"},
		"drains a working Node when the CRD of Machines is older than the server, because the Machine did not vanish with the CRD (MCM-82)": {ready(nodeOfMachine(9)), func(s *Snapshot) { s.Defined = noon.Add(-25 * time.Hour) }, true, ""},
		"keeps a server whose Machine this process never saw, because its Node was Ready until five minutes ago (MCM-82)": {func() Node { n := nodeOfMachine(9); n.Changed = noon.Add(10 * time.Minute); return n }(),
			func(s *Snapshot) { s.unseen(9); s.Projects[0].Resources[18].Created = noon.Add(-2 * time.Hour) }, false, "its Machine either was never seen"},
		"keeps a server with a Node of the control plane": {func() Node {
			n := nodeOfMachine(9)
			n.ControlPlane = "the label x"
			return n
		}(), nil, false, "control plane"},
		"keeps a server when an existing Machine names the server's Node in its status": {nodeOfMachine(9), func(s *Snapshot) { s.Machines.All[0].NodeName = "worker-9" }, false, "has the same name"},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := passes{count: 2, memory: remembers(), change: func(_ int, s *Snapshot) {
				s.drop(1, false)
				s.Nodes = []Node{tc.node}
				if tc.change != nil {
					tc.change(s)
				}
			}}.run(func() *Snapshot { return world(10) })
			o := v.Orphans[0]
			if o.Delete != tc.drains || o.Delete && o.Node == nil || !strings.Contains(o.Why, tc.why) {
				t.Errorf("got %+v", o)
			}
		})
	}
	t.Run("deletes a server at the drain timeout even if the drain is not complete", func(t *testing.T) {
		p := passes{memory: remembers(), change: func(_ int, s *Snapshot) {
			s.drop(1, false)
			s.Nodes = []Node{ready(nodeOfMachine(9))}
		}}
		for count, overdue := range map[int]bool{2: false, 9: false, 10: true} {
			p.count = count
			if v, _ := p.run(func() *Snapshot { return world(10) }); isOverdue(v.Orphans[0], count) != overdue {
				t.Errorf("in round %d the drain is over: %v", count, !overdue)
			}
		}
	})
}

// isOverdue reports whether the time for the drain of an orphan's Node is over in the last of the given number of rounds.
func isOverdue(o Orphan, passes int) bool {
	now := noon.Add(time.Duration(passes-1) * period)
	return !o.DrainUntil.IsZero() && !now.Before(o.DrainUntil)
}
