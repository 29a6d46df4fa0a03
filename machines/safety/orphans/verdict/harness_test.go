package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const (
	period  = 15 * time.Minute
	cluster = "c1"
)

// number returns the UID of the n-th Machine.
func number(n int) types.UID { return types.UID(fmt.Sprintf("u%d", n)) }

// machineOf returns the n-th Machine, which names its server in its provider ID.
func machineOf(n int) Machine {
	name := fmt.Sprintf("worker-%d", n)
	return Machine{UID: number(n), Name: "kube-system/" + name, ServerName: name, NodeName: name, Server: keyOf(n)}
}

func keyOf(n int) cloud.ServerID { return cloud.ServerID(fmt.Sprintf("server-%d", n)) }

// serverOf returns the server of the n-th Machine, which is a day old.
func serverOf(n int) cloud.Resource {
	return cloud.Resource{
		Kind: cloud.ResourceServer, ID: string(keyOf(n)), Key: keyOf(n), Name: fmt.Sprintf("worker-%d", n), Machine: number(n),
		Seen: noon.Add(-time.Hour), Created: noon.Add(-24 * time.Hour),
	}
}

// portOf returns a port of the n-th Machine. No server has the port.
func portOf(n int) cloud.Resource {
	return cloud.Resource{Kind: cloud.ResourcePort, ID: fmt.Sprintf("port-%d", n), Machine: number(n), Seen: noon.Add(-time.Hour)}
}

// nodeOfMachine returns the Node of the n-th Machine. The Node has drover's labels, and its kubelet has been dead for an
// hour.
func nodeOfMachine(n int) Node {
	name := fmt.Sprintf("worker-%d", n)
	return Node{
		Name: name, UID: types.UID(name), ProviderID: "x:///" + string(keyOf(n)), Server: keyOf(n), OwnedBy: number(n), Machine: "kube-system/" + name,
		Created: noon.Add(-24 * time.Hour), Changed: noon.Add(-time.Hour),
	}
}

// own is the project with the cluster's servers.
var own = site{Place: "p"}

// world returns a snapshot of a cluster with n Machines. Each Machine has a server, and a port that the server uses.
func world(n int) *Snapshot {
	s := &Snapshot{
		Now: noon, ClusterID: cluster, Settings: Settings{Age: period, MaxPerPass: 10, DrainTimeout: 2 * time.Hour},
		Projects: []cloud.Project{{Name: "p", Place: own.Place}}, Machines: Machines{Version: "1000"},
		History: History{Since: noon.Add(-time.Hour), Seen: map[types.UID]Sighting{}},
	}
	for i := range n {
		s.Machines.All = append(s.Machines.All, machineOf(i))
		s.History.Seen[number(i)] = Sighting{Exists: true}
		port := portOf(i)
		port.UsedBy = string(keyOf(i))
		s.has(serverOf(i), port)
	}
	return s
}

// has adds resources to the cluster's project.
func (s *Snapshot) has(all ...cloud.Resource) {
	s.Projects[0].Resources = append(s.Projects[0].Resources, all...)
}

// drop removes the last n Machines and keeps their resources. If lost is true, the API server has not reported the deletion of these
// Machines.
func (s *Snapshot) drop(n int, lost bool) {
	for range n {
		last := s.Machines.All[len(s.Machines.All)-1]
		s.Machines.All = s.Machines.All[:len(s.Machines.All)-1]
		s.History.Seen[last.UID] = Sighting{Leaving: !lost}
	}
}

// unseen removes the Machines with the given numbers from the history, as if this process had never seen them.
func (s *Snapshot) unseen(n ...int) {
	for _, one := range n {
		delete(s.History.Seen, number(one))
	}
}

// remembers returns the memory of a process that has collected orphans before, and that has seen the servers of four Machines
// that are gone now.
func remembers() Memory {
	m := Memory{Stored: Stored{ClusterID: cluster}, Servers: map[cloud.ServerID][]site{}}
	for n := range 4 {
		m.Servers[keyOf(20+n)] = []site{own}
	}
	return m
}

// passes are the rounds of a test. For each round, change is called with the number of the round, from 0 on, and with a new
// copy of the world.
type passes struct {
	count  int
	memory Memory
	change func(pass int, s *Snapshot)
}

// run runs the rounds, and returns the last verdict.
func (p passes) run(fresh func() *Snapshot) (v Verdict, m Memory) {
	m = p.memory
	for pass := range p.count {
		s := fresh()
		s.Now = noon.Add(time.Duration(pass) * period)
		s.Machines.Version = strconv.Itoa(1000 + pass)
		if p.change != nil {
			p.change(pass, s)
		}
		v, m = Judge(s, m)
	}
	return v, m
}

// deleted returns the IDs of the orphans to delete.
func deleted(v Verdict) (ids []string) {
	for _, o := range v.Orphans {
		if o.Delete {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// reasons returns the reasons why nothing is collected, or not everything.
func reasons(v Verdict) (all []Reason) {
	for _, stop := range append(slices.Clone(v.Stops), v.Skipped...) {
		all = append(all, stop.Reason)
	}
	return all
}

// expect fails the test unless the deleted orphans have these ids, and why holds the reasons why nothing else is deleted.
func expect(t *testing.T, v Verdict, ids []string, why ...Reason) {
	t.Helper()
	if got := deleted(v); !slices.Equal(got, ids) {
		t.Errorf("deletes %v, want %v; found %+v", got, ids, v.Orphans)
	}
	if got := reasons(v); !slices.Equal(got, why) {
		t.Errorf("reasons %v, want %v", got, why)
	}
}
