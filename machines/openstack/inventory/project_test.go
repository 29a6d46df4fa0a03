package inventory

import (
	"sync"
	"testing"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

func TestInventoryOfAProjectIsSafeForConcurrentUse(t *testing.T) {
	m := state.Machine{UID: "u1", ServerName: "worker-1", ServerID: "s1", Adopts: "s2"}
	p := newProject(t, m)
	tag := state.Tag{Kind: state.PortKind, Cluster: testCluster, Machine: m.UID}
	for name, ask := range map[string]func(m state.Machine){
		"Facts":             func(m state.Machine) { p.Facts(&m) },
		"ServerOf":          func(m state.Machine) { p.ServerOf(&m) },
		"Adopt":             func(m state.Machine) { _ = p.Adopt(t.Context(), &m) },
		"InDoubt":           func(m state.Machine) { p.InDoubt(&m) },
		"HasServer":         func(m state.Machine) { p.HasServer(m.UID, m.ServerID) },
		"AddServer":         func(m state.Machine) { p.AddServer(m.UID, "s1", m.ServerName) },
		"Deletable":         func(m state.Machine) { p.Deletable(m.UID, false) },
		"DeletionRequested": func(state.Machine) { p.DeletionRequested("s1", nil) },
		"GoneServers":       func(m state.Machine) { p.GoneServers(m.UID) },
		"OwnsFloatingIP":    func(m state.Machine) { p.OwnsFloatingIP(&m, &state.FloatingIPRow{ID: "ip"}, false) },
		"AddPort":           func(state.Machine) { p.AddPort(tag, &state.PortRow{ID: "p1"}) },
		"FoundPort":         func(state.Machine) { p.FoundPort(tag, &state.PortRow{ID: "p1"}) },
		"FoundUnbound":      func(state.Machine) { _ = p.FoundUnbound(tag, &state.PortRow{ID: "p1"}) },
		"PortsOf":           func(m state.Machine) { p.PortsOf(m.UID) },
		"DoubtPorts":        func(m state.Machine) { p.DoubtPorts(m.UID) },
		"ForgetPort":        func(m state.Machine) { p.ForgetPort(m.UID, 0, "port") },
		"AddFloatingIP":     func(state.Machine) { p.AddFloatingIP(tag, state.FloatingIP{ID: "ip"}) },
		"FloatingIPOf":      func(m state.Machine) { p.FloatingIPOf(m.UID) },
		"ForgetFloatingIP":  func(m state.Machine) { p.ForgetFloatingIP(m.UID) },
		"Owned":             func(m state.Machine) { p.Owned(m.UID) },
		"Attempted":         func(state.Machine) { p.Attempted(tag, fault.New(fault.Transient, fault.CodeServerError, "no answer")) },
		"CloseCreate":       func(state.Machine) { _ = p.CloseCreate(tag) },
		"HasAttempt":        func(state.Machine) { p.HasAttempt(tag) },
		"OpenAttempts":      func(m state.Machine) { p.OpenAttempts(m.UID) },
		"UseQuota":          func(m state.Machine) { p.UseQuota(m.UID, state.Amounts{state.Ports: 1}) },
		"QuotaRefused": func(m state.Machine) {
			p.QuotaRefused(m.UID, fault.New(fault.Quota, fault.CodePortQuotaExceeded, "full"), state.Amounts{state.Ports: 1})
		},
		"BeginMaking": func(m state.Machine) {
			if end, err := p.BeginMaking(m.UID, state.Amounts{state.Ports: 1}); err == nil {
				end()
			}
		},
		"Listed":     func(state.Machine) { _, _ = p.Listed() },
		"Tagged":     func(state.Machine) { p.Tagged() },
		"Statistics": func(state.Machine) { p.Statistics() },
		"Use":        func(state.Machine) { p.Use(nil) },
	} {
		t.Run("method "+name+" can be called while other goroutines call AddServer and AddPort", func(*testing.T) {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { ask(m) })
				all.Go(func() { p.AddServer(m.UID, "s1", m.ServerName) })
				all.Go(func() { p.AddPort(tag, &state.PortRow{ID: "p1"}) })
			}
			all.Wait()
		})
	}
}
