package known

import (
	"iter"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

const testCluster owner.Cluster = "c1"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// machines is a registry of Machines, by UID.
type machines map[types.UID]owner.Machine

func (m machines) Get(uid types.UID) (owner.Machine, bool) {
	found, ok := m[uid]
	return found, ok
}

func (m machines) All() iter.Seq[owner.Machine] { return maps.Values(m) }

func (m machines) Naming(serverID string) types.UID {
	return m.with(func(m owner.Machine) bool { return m.ServerID == serverID })
}

func (m machines) with(has func(owner.Machine) bool) types.UID {
	for uid, one := range m {
		if has(one) {
			return uid
		}
	}
	return ""
}

// newProject returns a project whose polling began at noon and whose registered Machines are known.
func newProject(known ...owner.Machine) *Project {
	all := machines{}
	for _, m := range known {
		all[m.UID] = m
	}
	return New(Options{Cluster: testCluster, Site: owner.Site{Project: "p", Region: "r"}, Machines: all, Began: noon})
}
