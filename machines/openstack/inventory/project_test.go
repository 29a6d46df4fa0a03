package inventory

import (
	"sync"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestInventoryOfAProjectIsSafeForConcurrentUse(t *testing.T) {
	m := Machine{UID: "u1", ServerName: "worker-1", ServerID: "s1", Adopts: "s2"}
	p := newProject(t, m)
	tag := OwnerTag{Kind: PortKind, Cluster: testCluster, Machine: m.UID}
	for name, ask := range map[string]func(m Machine){
		"Facts":             func(m Machine) { p.Facts(&m) },
		"ServerOf":          func(m Machine) { p.ServerOf(&m) },
		"Adopt":             func(m Machine) { _ = p.Adopt(t.Context(), &m) },
		"InDoubt":           func(m Machine) { p.InDoubt(&m) },
		"HasServer":         func(m Machine) { p.HasServer(m.UID, m.ServerID) },
		"AddServer":         func(m Machine) { p.AddServer(m.UID, "s1", m.ServerName) },
		"Deletable":         func(m Machine) { p.Deletable(m.UID, false) },
		"DeletionRequested": func(Machine) { p.DeletionRequested("s1", nil) },
		"GoneServers":       func(m Machine) { p.GoneServers(m.UID) },
		"OwnsFloatingIP":    func(m Machine) { p.OwnsFloatingIP(&m, &FloatingIPRow{ID: "ip"}, false) },
		"AddPort":           func(Machine) { p.AddPort(tag, &PortRow{ID: "p1"}) },
		"FoundPort":         func(Machine) { p.FoundPort(tag, &PortRow{ID: "p1"}) },
		"FoundUnbound":      func(Machine) { _ = p.FoundUnbound(tag, &PortRow{ID: "p1"}) },
		"PortsOf":           func(m Machine) { p.PortsOf(m.UID) },
		"DoubtPorts":        func(m Machine) { p.DoubtPorts(m.UID) },
		"ForgetPort":        func(m Machine) { p.ForgetPort(m.UID, 0, "port") },
		"AddFloatingIP":     func(Machine) { p.AddFloatingIP(tag, FloatingIP{ID: "ip"}) },
		"FloatingIPOf":      func(m Machine) { p.FloatingIPOf(m.UID) },
		"ForgetFloatingIP":  func(m Machine) { p.ForgetFloatingIP(m.UID) },
		"Owned":             func(m Machine) { p.Owned(m.UID) },
		"Attempted":         func(Machine) { p.Attempted(tag, fault.New(fault.Transient, fault.CodeServerError, "no answer")) },
		"CloseCreate":       func(Machine) { _ = p.CloseCreate(tag) },
		"HasAttempt":        func(Machine) { p.HasAttempt(tag) },
		"OpenAttempts":      func(m Machine) { p.OpenAttempts(m.UID) },
		"UseQuota":          func(m Machine) { p.UseQuota(m.UID, Amounts{Ports: 1}) },
		"QuotaRefused": func(m Machine) {
			p.QuotaRefused(m.UID, fault.New(fault.Quota, fault.CodePortQuotaExceeded, "full"), Amounts{Ports: 1})
		},
		"BeginMaking": func(m Machine) {
			if end, err := p.BeginMaking(m.UID, Amounts{Ports: 1}); err == nil {
				end()
			}
		},
		"Listed":     func(Machine) { _, _ = p.Listed() },
		"Tagged":     func(Machine) { p.Tagged() },
		"Statistics": func(Machine) { p.Statistics() },
		"Use":        func(Machine) { p.Use(nil) },
	} {
		t.Run("method "+name+" can be called while other goroutines call AddServer and AddPort", func(*testing.T) {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { ask(m) })
				all.Go(func() { p.AddServer(m.UID, "s1", m.ServerName) })
				all.Go(func() { p.AddPort(tag, &PortRow{ID: "p1"}) })
			}
			all.Wait()
		})
	}
}
