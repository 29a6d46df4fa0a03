package state

import (
	"iter"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const testCluster Cluster = "c1"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// machines is a registry of Machines, by UID.
type machines map[types.UID]Machine

func (m machines) Get(uid types.UID) (Machine, bool) {
	found, ok := m[uid]
	return found, ok
}

func (m machines) All() iter.Seq[Machine] { return maps.Values(m) }

func (m machines) Naming(serverID string) types.UID {
	return m.with(func(m Machine) bool { return m.ServerID == serverID })
}

func (m machines) with(has func(Machine) bool) types.UID {
	for uid, one := range m {
		if has(one) {
			return uid
		}
	}
	return ""
}

// newProject returns a project whose polling began at noon and whose registered Machines are known.
func newProject(known ...Machine) *Project {
	all := machines{}
	for _, m := range known {
		all[m.UID] = m
	}
	return New(testCluster, Site{Project: "p", Region: "r"}, all, noon, nil)
}

// newCache returns known servers that no Machine needs.
func newCache() *Servers { return newServers(testCluster, machines{}) }
