package verdict

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const age = 15 * time.Minute

// number returns the UID of the n-th Machine.
func number(n int) types.UID { return types.UID(fmt.Sprintf("u%d", n)) }

// machineOf returns the n-th Machine, which names its server in its provider ID.
func machineOf(n int) Machine {
	name := fmt.Sprintf("worker-%d", n)
	return Machine{UID: number(n), Name: "kube-system/" + name, ServerName: name, NodeName: name, Server: keyOf(n)}
}

func keyOf(n int) cloud.ServerID { return cloud.ServerID(fmt.Sprintf("server-%d", n)) }

// serverOf returns the server of the n-th Machine.
func serverOf(n int) cloud.Resource {
	return cloud.Resource{Place: "p", Kind: cloud.ResourceServer, ID: string(keyOf(n)), Key: keyOf(n), Name: fmt.Sprintf("worker-%d", n), Machine: number(n)}
}

// portOf returns a port of the n-th Machine. No server has the port.
func portOf(n int) cloud.Resource {
	return cloud.Resource{Place: "p", Kind: cloud.ResourcePort, ID: fmt.Sprintf("port-%d", n), Machine: number(n)}
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

// world returns a snapshot of a cluster with n Machines. Each Machine has a server, and a port that the server uses. The Machines 20
// to 29 ended an hour ago, and nothing of them is left.
func world(n int) *Snapshot {
	s := &Snapshot{
		Settings: Settings{Age: age}, Now: noon, Defined: noon.Add(-24 * time.Hour), Projects: []cloud.Project{{Name: "p", Place: "p"}}, Ends: Ends{},
	}
	for i := range n {
		s.Machines = append(s.Machines, machineOf(i))
		port := portOf(i)
		port.UsedBy = string(keyOf(i))
		s.has(serverOf(i), port)
	}
	for i := range 10 {
		s.end(20+i, time.Hour)
	}
	return s
}

// has adds resources to the cluster's project.
func (s *Snapshot) has(all ...cloud.Resource) {
	s.Projects[0].Resources = append(s.Projects[0].Resources, all...)
}

// end records that the n-th Machine ended some time ago.
func (s *Snapshot) end(n int, ago time.Duration) {
	s.Ends[number(n)] = End{UID: number(n), Place: "p of " + string(number(n)), Time: noon.Add(-ago), Ordered: noon.Add(-ago)}
}

// lose removes the last n Machines and keeps their resources. Nobody has seen these Machines end.
func (s *Snapshot) lose(n int) { s.Machines = s.Machines[:len(s.Machines)-n] }

// deleted returns the IDs of the orphans to delete.
func deleted(v Verdict) (ids []string) {
	for _, o := range v.Orphans {
		if o.Delete {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// staying returns the first orphan that is not deleted; nil when there is none.
func staying(v Verdict) *Orphan {
	if i := slices.IndexFunc(v.Orphans, func(o Orphan) bool { return !o.Delete }); i >= 0 {
		return &v.Orphans[i]
	}
	return nil
}

// reasons returns the reasons why nothing is collected, or not everything.
func reasons(v Verdict) (all []Reason) {
	for _, stop := range v.Stops {
		all = append(all, stop.Reason)
	}
	return all
}

func judged(s *Snapshot) *Verdict { v := Judge(s); return &v }
