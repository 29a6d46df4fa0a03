package state

import (
	"slices"
	"testing"
	"time"
)

func TestOnlyPortsOfServersWithoutANodeAreLookedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		machine Machine
		after   time.Duration
		due     bool
	}{
		"looks up the port of a server that has been ACTIVE for two minutes without a Node (F-21)": {Machine{UID: "u1"}, DetachedAfter, true},
		"does not look up the port of a server that has been ACTIVE for less than two minutes":     {Machine{UID: "u1"}, DetachedAfter - time.Second, false},
		"does not look up the port of a server with a Node":                                        {Machine{UID: "u1", Joined: true}, time.Hour, false},
		"does not look up the port of a server whose Machine is being deleted":                     {Machine{UID: "u1", Leaving: true}, time.Hour, false},
		"does not look up the port of a server whose Machine drover has not reconciled yet":        {Machine{UID: "u2"}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.list(noon, AddressLists{Ports: []PortRow{{ID: "a", Description: portTag.String(), DeviceID: "s1"}}}, active("s1", "u1"))
			due, ports := p.Unjoined(noon.Add(tc.after))
			if slices.Contains(due, Unjoined{"u1", "s1"}) != tc.due || slices.Contains(ports, "a") != tc.due {
				t.Errorf("got %v with ports %v, want due: %v", due, ports, tc.due)
			}
		})
	}
}

func TestServerCountsAsFailedWhenItsPortIsNoLongerBoundToIt(t *testing.T) {
	for name, tc := range map[string]struct {
		device   string
		detached bool
	}{
		"a server does not count as failed while its port is bound to it (F-21)":                                     {"s1", false},
		"a server counts as failed, and its port is to be replaced, when the port is bound to no server (F-21)":      {"", true},
		"a server counts as failed, and its port is to be replaced, when the port is bound to another server (F-21)": {"s2", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(Machine{UID: "u1"})
			row := PortRow{ID: "a", Description: portTag.String(), DeviceID: "s1"}
			p.list(noon, AddressLists{Ports: []PortRow{row}}, active("s1", "u1"))
			p.SetPort(portTag, Port{ID: "a", ServerID: "s1"}, noon) // so the port counts as created by this process
			at := noon.Add(DetachedAfter)
			due, _ := p.Unjoined(at)
			row.DeviceID = tc.device
			machines := p.Detach(due, []PortRow{row}, at)
			if slices.Contains(machines, "u1") != tc.detached || p.Servers.get("s1").failed() != tc.detached {
				t.Errorf("detached: %v, failed: %v; want %v", machines, p.Servers.get("s1").failed(), tc.detached)
			}
			if got := p.Addresses.Ports("u1")[0].NamedByCreate; got != tc.detached {
				t.Errorf("the port is to be replaced: %v, want %v", got, tc.detached)
			}
			if again, _ := p.Unjoined(at.Add(time.Hour)); len(again) > 0 {
				t.Errorf("the port is looked up again: %v", again)
			}
		})
	}
}

func TestWhenASecondServerOfAMachineIsDeletedAsADuplicate(t *testing.T) {
	m := Machine{UID: "u1", ServerID: "s1", Joined: true}
	for name, tc := range map[string]struct {
		machine Machine
		second  ServerRow
		after   time.Duration
		want    []string
	}{
		"a second server of a Machine is deleted two minutes after drover has first seen it":                              {m, active("s2", "u1"), DuplicateAge, []string{"s2"}},
		"a second server of a Machine stays in the first two minutes after drover has first seen it":                      {m, active("s2", "u1"), DuplicateAge - time.Second, nil},
		"a server stays when its owner tag names another Machine, because it is not a duplicate":                          {m, active("s2", "u2"), time.Hour, nil},
		"a second server stays when the Machine's spec.providerID is empty":                                               {Machine{UID: "u1", Joined: true}, active("s2", "u1"), time.Hour, nil},
		"a second server stays when the Machine's spec.providerID names the server of another Machine (F-1)":              {Machine{UID: "u1", ServerID: "x", Joined: true}, active("s2", "u1"), time.Hour, nil},
		"a second server stays while its Machine is being deleted":                                                        {Machine{UID: "u1", ServerID: "s1", Leaving: true}, active("s2", "u1"), time.Hour, nil},
		"a second server stays while the first server has no Node and the Machine's ports have not been looked up (F-21)": {Machine{UID: "u1", ServerID: "s1"}, active("s2", "u1"), time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			ports := AddressLists{Ports: []PortRow{{ID: "a", Description: portTag.String(), DeviceID: "s1"}}}
			p.list(noon, ports, active("s1", "u1"), active("x", "u9"), tc.second)
			if got := p.Duplicates(noon.Add(tc.after)); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
