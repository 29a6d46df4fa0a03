package verdict

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
)

func TestResources(t *testing.T) {
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
		// why is part of the reason of the one orphan that stays.
		want []string
		why  string
	}{
		"what has a Machine is no orphan (MCM-81)":                  {func(*Snapshot) {}, nil, ""},
		"a server without a Machine is collected (MCM-81, CAPI-59)": {func(s *Snapshot) { s.drop(1, false) }, []string{"server-9"}, "server server-9 has it"},
		"a young one is not (MCM-81)":                               {func(s *Snapshot) { s.has(young(portOf(20))) }, nil, "younger than 15m"},
		"a port that the cloud made long ago counts from when it was first seen with its mark (MCM-81)": {func(s *Snapshot) {
			port := young(portOf(20))
			port.Created = noon.Add(-50 * time.Minute)
			s.has(port)
			s.History.Seen[port.Machine] = Sighting{Leaving: true}
		}, nil, "younger than 15m"},
		"a server of a Machine that is still being made stays (MCM-83)": {func(s *Snapshot) { s.Machines.All[9].Server, s.Machines.All[9].NodeName = "", "" }, nil, ""},
		"a second server of a living Machine, with another provider ID, is left to the inventory (MCM-83)": {func(s *Snapshot) {
			twin := serverOf(20)
			twin.Machine = number(0)
			s.has(twin)
		}, nil, ""},
		"a server that a living Machine names stays (F-1)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Machines.All[0].Server = keyOf(20)
		}, nil, "adopt"},
		"a server with the name of a living Machine's server stays (F-1)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Machines.All[0].ServerName = "worker-20"
		}, nil, "adopt"},
		"floating IPs and ports are collected, in that order (MCM-84, CAPI-59)":                   {func(s *Snapshot) { s.has(portOf(20), floatingIP) }, []string{"ip", "port-20"}, ""},
		"a port that a server has stays (MCM-84)":                                                 {func(s *Snapshot) { s.has(on(portOf(20), "server-0")) }, nil, "server server-0 has it"},
		"a floating IP on a server's port stays (MCM-84)":                                         {func(s *Snapshot) { s.has(on(floatingIP, "server-0")) }, nil, "server server-0 has it"},
		"a port waits for the server of the same Machine, also when it is not on it yet (MCM-84)": {func(s *Snapshot) { s.has(serverOf(20), portOf(20)) }, []string{"server-20"}, "waits until the server"},
		"the late port of a stalled predecessor is collected when its Machine is gone (MCM-84)":   {func(s *Snapshot) { s.has(portOf(20)) }, []string{"port-20"}, ""},
		"at most so many are deleted in one pass (MCM-81)": {func(s *Snapshot) {
			s.MaxPerPass = 2
			s.has(portOf(20), portOf(21), portOf(22))
		}, []string{"port-20", "port-21"}, "next pass"},
		"a dry run reports and deletes nothing (CAPI-59)": {func(s *Snapshot) { s.has(portOf(20)); s.ReportOnly = true }, nil, "only reported"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := func() *Snapshot { s := world(10); tc.change(s); return s }
			first, _ := passes{count: 1, memory: remembers()}.run(fresh)
			expect(t, first, nil)
			v, _ := passes{count: 2, memory: remembers()}.run(fresh)
			expect(t, v, tc.want)
			stays := slices.IndexFunc(v.Orphans, func(o Orphan) bool { return !o.Delete })
			if (stays >= 0) != (tc.why != "") || stays >= 0 && !strings.Contains(v.Orphans[stays].Why, tc.why) {
				t.Errorf("want one that stays because of %q; found %+v", tc.why, v.Orphans)
			}
		})
	}
}

// Twelve servers have lost their Machines, and the cloud never deletes them. Each look may delete ten.
func TestServersThatTheCloudDoesNotDelete(t *testing.T) {
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
	t.Run("do not keep others waiting when their deletion is refused each time (MCM-81)", func(t *testing.T) {
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
	t.Run("are asked for once an hour when it is accepted and they stay (MCM-81)", func(t *testing.T) {
		m := remembers()
		for n, want := range []int{0, 10, 3, 0, 0, 10, 3, 0} {
			var ids []string
			if ids, m = pass(n, m, true); len(ids) != want {
				t.Errorf("in pass %d %d are asked for: %v", n, len(ids), ids)
			}
		}
	})
	t.Run("count once, whatever comes between (MCM-81)", func(t *testing.T) {
		v, m := passes{count: 2, memory: remembers()}.run(func() *Snapshot { return fresh(0) })
		o := v.Orphans[slices.IndexFunc(v.Orphans, func(o Orphan) bool { return o.Delete })]
		if !m.Accepted(&o, noon) {
			t.Error("the first time it does not count")
		}
		s := fresh(2)
		s.Stale = "the API server does not answer"
		_, m = Judge(s, m)
		_, m = Judge(fresh(3), m)
		if m.Accepted(&o, noon.Add(2*time.Hour)) {
			t.Error("it counts twice")
		}
	})
	t.Run("and whose Nodes are drained go on being drained while they wait for their turn (MCM-81)", func(t *testing.T) {
		p := passes{memory: remembers(), change: func(_ int, s *Snapshot) {
			s.drop(2, false)
			s.MaxPerPass = 1
			s.Nodes = []Node{nodeOfMachine(8), nodeOfMachine(9)}
		}}
		for count, overdue := range map[int]bool{4: false, 10: true} {
			p.count = count
			if v, _ := p.run(func() *Snapshot { return world(10) }); isOverdue(v.Orphans[0], count) != overdue {
				t.Errorf("in pass %d the first is overdue: %v", count, !overdue)
			}
		}
	})
}

func TestTwoPasses(t *testing.T) {
	fresh := func() *Snapshot { s := world(10); s.has(portOf(20)); return s }
	for name, tc := range map[string]struct {
		count  int
		change func(pass int, s *Snapshot)
		want   []string
	}{
		"one is not enough (MCM-81)": {1, nil, nil},
		"two in a row are (MCM-81)":  {2, nil, []string{"port-20"}},
		"a pass that judges nothing begins the count again (MCM-80)": {3, func(pass int, s *Snapshot) {
			if pass == 1 {
				s.Stale = "no lease"
			}
		}, nil},
		"so does a pass in which it had a Machine (MCM-81)": {3, func(pass int, s *Snapshot) {
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

func TestServersWithANode(t *testing.T) {
	ready := func(n Node) Node { n.Ready = true; return n }
	unmarked := func(n Node) Node { n.OwnedBy, n.Machine = "", ""; return n }
	for name, tc := range map[string]struct {
		node   Node
		change func(s *Snapshot)
		drains bool
		why    string
	}{
		"are drained first (MCM-81)": {ready(nodeOfMachine(9)), nil, true, ""},
		"are drained first when only their mark says whose the Node is (MCM-81)": {func() Node {
			n := ready(nodeOfMachine(9))
			n.ProviderID, n.Server = "", ""
			return n
		}(), nil, true, ""},
		"stay when the Node works and never was drover's (MCM-81)": {unmarked(ready(nodeOfMachine(9))), nil, false, "never had drover's marks"},
		"stay when that Node worked a quarter of an hour ago (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.Changed = noon.Add(time.Minute)
			return n
		}(), nil, false, "never had drover's marks"},
		"stay when a Node works that has their name and neither provider ID nor mark (MCM-81)": {func() Node {
			n := unmarked(ready(nodeOfMachine(9)))
			n.ProviderID, n.Server = "", ""
			return n
		}(), nil, false, "never had drover's marks"},
		"are drained first when only its name says whose the Node is (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.ProviderID, n.Server = "", ""
			return n
		}(), nil, true, ""},
		"stay when the Node with their name is another server's (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.ProviderID, n.Server = "x:///other", "other"
			return n
		}(), nil, false, "has the provider ID x:///other"},
		"stay when the Node with their name is of no known cloud (MCM-81)": {func() Node {
			n := unmarked(nodeOfMachine(9))
			n.ProviderID, n.Server = "aws:///i-1", ""
			return n
		}(), nil, false, "has the provider ID aws:///i-1"},
		"go when that Node does not work (MCM-81)": {unmarked(nodeOfMachine(9)), nil, true, ""},
		"stay when the Node works and this process never saw the Machine, as after CRDs were made again (MCM-82)": {ready(nodeOfMachine(9)),
			func(s *Snapshot) { s.unseen(9); s.Projects[0].Resources[18].Created = noon.Add(-2 * time.Hour) }, false, "never seen its Machine"},
		"stay when the Node works and the Machine went with its CRD while this process looked on (MCM-82)": {ready(nodeOfMachine(9)),
			func(s *Snapshot) { s.Defined = noon.Add(-time.Minute) }, false, "went with a CRD"},
		"go when the CRD is older than they are (MCM-82)": {ready(nodeOfMachine(9)), func(s *Snapshot) { s.Defined = noon.Add(-25 * time.Hour) }, true, ""},
		"stay when that Node misses one report only (MCM-82)": {func() Node { n := nodeOfMachine(9); n.Changed = noon.Add(10 * time.Minute); return n }(),
			func(s *Snapshot) { s.unseen(9); s.Projects[0].Resources[18].Created = noon.Add(-2 * time.Hour) }, false, "never seen its Machine"},
		"stay when the Node is one of the control plane": {func() Node {
			n := nodeOfMachine(9)
			n.ControlPlane = "the label x"
			return n
		}(), nil, false, "control plane"},
		"stay when a living Machine has the Node": {nodeOfMachine(9), func(s *Snapshot) { s.Machines.All[0].NodeName = "worker-9" }, false, "has its name"},
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
	t.Run("are not waited for beyond the drain timeout", func(t *testing.T) {
		p := passes{memory: remembers(), change: func(_ int, s *Snapshot) {
			s.drop(1, false)
			s.Nodes = []Node{ready(nodeOfMachine(9))}
		}}
		for count, overdue := range map[int]bool{2: false, 9: false, 10: true} {
			p.count = count
			if v, _ := p.run(func() *Snapshot { return world(10) }); isOverdue(v.Orphans[0], count) != overdue {
				t.Errorf("in pass %d it is overdue: %v", count, !overdue)
			}
		}
	})
}

// isOverdue reports whether the drain for an orphan has lasted as long as it may in the last of so many passes.
func isOverdue(o Orphan, passes int) bool {
	now := noon.Add(time.Duration(passes-1) * period)
	return !o.DrainUntil.IsZero() && !now.Before(o.DrainUntil)
}
