package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
)

func TestWhichResourcesAreDeletedAsOrphans(t *testing.T) {
	floatingIP := cloud.Resource{Place: "p", Kind: cloud.ResourceFloatingIP, ID: "ip", Machine: number(20)}
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
		"keeps the resources of existing Machines (MCM-81)":                        {func(*Snapshot) {}, nil, ""},
		"deletes the server of a Machine whose end was observed (MCM-81, CAPI-59)": {func(s *Snapshot) { s.has(serverOf(20)) }, []string{"server-20"}, ""},
		"deletes the server of the cluster's last Machine after its end (MCM-81)":  {func(s *Snapshot) { *s = *world(0); s.has(serverOf(20)) }, []string{"server-20"}, ""},
		"keeps a server whose Machine ended less than 15 minutes ago (MCM-81)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.end(20, 14*time.Minute)
		}, nil, "less than 15m"},
		"requests no second deletion of a server that the cloud is deleting (MCM-81)": {func(s *Snapshot) {
			server := serverOf(20)
			server.Deleting = true
			s.has(server)
		}, nil, BeingDeleted},
		"keeps the server of a Machine that has no provider ID yet (MCM-83)": {func(s *Snapshot) { s.Machines[9].Server, s.Machines[9].NodeName = "", "" }, nil, ""},
		"keeps a duplicate of an existing Machine's server, because a duplicate is not an orphan (MCM-83)": {func(s *Snapshot) {
			twin := serverOf(20)
			twin.Machine = number(0)
			s.has(twin)
		}, nil, ""},
		"keeps a server that the provider ID of an existing Machine names (F-1)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Machines[0].Server = keyOf(20)
		}, nil, "adopt"},
		"keeps a server with the name of an existing Machine's server (F-1)": {func(s *Snapshot) {
			s.has(serverOf(20))
			s.Machines[0].ServerName = "worker-20"
		}, nil, "adopt"},
		"deletes a floating IP before a port (MCM-84, CAPI-59)":                    {func(s *Snapshot) { s.has(portOf(20), floatingIP) }, []string{"ip", "port-20"}, ""},
		"keeps a port that a server uses (MCM-84)":                                 {func(s *Snapshot) { s.has(on(portOf(20), "server-0")) }, nil, "server server-0 uses it"},
		"keeps a floating IP on a server's port (MCM-84)":                          {func(s *Snapshot) { s.has(on(floatingIP, "server-0")) }, nil, "server server-0 uses it"},
		"keeps a port until the server of the same Machine is gone (MCM-84)":       {func(s *Snapshot) { s.has(serverOf(20), portOf(20)) }, []string{"server-20"}, "waits until the server"},
		"deletes a port without a server when the port's Machine is gone (MCM-84)": {func(s *Snapshot) { s.has(portOf(20)) }, []string{"port-20"}, ""},
		"deletes a port although a server of the same Machine exists in another project (MCM-84)": {func(s *Snapshot) {
			s.has(portOf(20))
			server := serverOf(20)
			server.Place = "t"
			s.end(21, time.Hour)
			s.Projects = append(s.Projects, cloud.Project{Place: "t", Resources: []cloud.Resource{server}})
		}, []string{"server-20", "port-20"}, ""},
		"deletes nothing with --orphans=report (CAPI-59)": {func(s *Snapshot) { s.has(portOf(20)); s.ReportOnly = true }, nil, "only reported"},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(10)
			tc.change(s)
			v := Judge(s)
			if got := deleted(v); !slices.Equal(got, tc.want) {
				t.Errorf("deletes %v, want %v", got, tc.want)
			}
			if o := staying(v); (o != nil) != (tc.why != "") || o != nil && !strings.Contains(o.Why, tc.why) {
				t.Errorf("want a kept orphan with the reason %q; found %+v", tc.why, v.Orphans)
			}
		})
	}
}

func TestWhetherAServerWithoutAMachineIsDeletedAndItsNodeDrained(t *testing.T) {
	ready := func(n Node) Node { n.Ready = true; return n }
	unmarked := func(n Node) Node { n.OwnedBy, n.Machine = "", ""; return n }
	unnamed := func(n Node) Node { n.ProviderID, n.Server = "", ""; return n }
	with := func(change func(*Node)) Node { n := nodeOfMachine(20); change(&n); return n }
	for name, tc := range map[string]struct {
		node   Node
		change func(s *Snapshot)
		drains bool
		why    string
	}{
		"drains the Node before deleting the server (MCM-81)":                                                             {ready(nodeOfMachine(20)), nil, true, ""},
		"drains a Node without a provider ID whose label shows the server's Machine (MCM-81)":                             {unnamed(ready(nodeOfMachine(20))), nil, true, ""},
		"drains the dead Node that has the server's name, even without a provider ID and without labels (MCM-81)":         {unnamed(unmarked(nodeOfMachine(20))), nil, true, ""},
		"deletes a server whose Node is dead and never belonged to a Machine (MCM-81)":                                    {unmarked(nodeOfMachine(20)), nil, true, ""},
		"keeps a server with a working Node that never belonged to a Machine (MCM-81)":                                    {unmarked(ready(nodeOfMachine(20))), nil, false, "never had drover's labels"},
		"keeps a server whose Node never belonged to a Machine and was Ready less than 15 minutes ago (MCM-81)":           {unmarked(with(func(n *Node) { n.Changed = noon.Add(-time.Minute) })), nil, false, "never had drover's labels"},
		"keeps a server when a Ready Node without a provider ID and without labels has the server's name (MCM-81)":        {unnamed(unmarked(ready(nodeOfMachine(20)))), nil, false, "never had drover's labels"},
		"keeps a server with a working Node that never belonged to a Machine although a person has confirmed it (MCM-81)": {unmarked(ready(nodeOfMachine(20))), func(s *Snapshot) { s.Ends[number(20)] = End{UID: number(20), Time: noon, Confirmed: true} }, false, "never had drover's labels"},
		"keeps a server when the Node with its name belongs to another server (MCM-81)":                                   {unmarked(with(func(n *Node) { n.ProviderID, n.Server = "x:///other", "other" })), nil, false, "has the provider ID x:///other"},
		"keeps a server when the Node with its name has the provider ID of another cloud (MCM-81)":                        {unmarked(with(func(n *Node) { n.ProviderID, n.Server = "aws:///i-1", "" })), nil, false, "has the provider ID aws:///i-1"},
		"keeps a server with a working Node when drover has not seen the end of its Machine (MCM-82)":                     {ready(nodeOfMachine(20)), func(s *Snapshot) { delete(s.Ends, number(20)) }, false, "has not seen the end"},
		"keeps a server with a Node of the control plane (MCM-81)":                                                        {with(func(n *Node) { n.ControlPlane = "the label x" }), nil, false, "control plane"},
		"keeps a server when an existing Machine names the server's Node in its status (MCM-81)":                          {nodeOfMachine(20), func(s *Snapshot) { s.Machines[0].NodeName = "worker-20" }, false, "has the same name"},
		"keeps a server when the label of its Node has the UID of an existing Machine (MCM-81)":                           {with(func(n *Node) { n.OwnedBy = number(0) }), nil, false, "belongs to a Machine that exists"},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(10)
			s.has(serverOf(20))
			s.Nodes = []Node{tc.node}
			if tc.change != nil {
				tc.change(s)
			}
			o := Judge(s).Orphans[0]
			if o.Delete != tc.drains || o.Delete && o.Node == nil || !strings.Contains(o.Why, tc.why) {
				t.Errorf("got %+v", o)
			}
		})
	}
}
