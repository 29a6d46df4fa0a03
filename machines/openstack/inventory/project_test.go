package inventory

import (
	"sync"
	"testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

func TestInventoryOfAProjectIsSafeForConcurrentUse(t *testing.T) {
	m := state.Machine{UID: "u1", ServerName: "worker-1", ServerID: "s1", Adopts: "s2"}
	p := newProject(t, m)
	tag := state.Tag{Kind: cloud.ResourcePort, Cluster: testCluster, Machine: m.UID}
	for name, ask := range map[string]func(m state.Machine){
		"With":  func(m state.Machine) { p.With(func(s *state.Project) { s.Facts(&m) }) },
		"Adopt": func(m state.Machine) { _ = p.Adopt(t.Context(), &m) },
		"CreateFailed": func(state.Machine) {
			p.CreateFailed(tag, fault.New(fault.Transient, fault.CodeServerError, "no answer"), state.Amounts{})
		},
		"Tagged": func(state.Machine) { p.Tagged() },
		"Use":    func(state.Machine) { p.Use(nil) },
		// The value that ResourcesOf returns is a copy.
		"ResourcesOf": func(m state.Machine) {
			own := p.ResourcesOf(m.UID)
			delete(own.Ports, 0)
		},
	} {
		t.Run("method "+name+" can be called while other goroutines add servers and ports", func(*testing.T) {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { ask(m) })
				all.Go(func() { p.AddServer(m.UID, "s1", m.ServerName) })
				all.Go(func() { p.With(func(s *state.Project) { s.AddPort(tag, state.Port{ID: "p1"}, noon) }) })
			}
			all.Wait()
		})
	}
}
