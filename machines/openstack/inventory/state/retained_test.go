package state

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

func TestReleaseOfARetainedPort(t *testing.T) {
	idle := func(t *testing.T) (*Project, Retained) {
		t.Helper()
		p := newProject(Machine{UID: "u1"})
		p.SetPort(portTag, Port{ID: "port-1"}, noon)
		return p, Retained{portTag, "port-1"}
	}
	t.Run("the release waits while a server is being created on the port (F-18)", func(t *testing.T) {
		p, port := idle(t)
		err := p.BeginMaking("u1", Amounts{}, noon)
		if err != nil || p.BeginRelease(port) {
			t.Fatalf("the port of a server that is being created is released: %v", err)
		}
		p.EndMaking("u1")
		if !p.BeginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
	})
	t.Run("no server is created on the port while the port is being released (F-18)", func(t *testing.T) {
		p, port := idle(t)
		if !p.BeginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
		if err := p.BeginMaking("u1", Amounts{}, noon); !fault.Is(err, fault.Transient) {
			t.Errorf("a server is created on a port that is being released: %v", err)
		}
	})
	t.Run("drover forgets the port after a successful release, and not after a failed release (F-18)", func(t *testing.T) {
		p, port := idle(t)
		for _, released := range []bool{false, true} {
			if !p.BeginRelease(port) {
				t.Fatal("the port of an idle Machine is not released")
			}
			p.EndRelease(port, released)
			if _, known := p.Addresses.Ports("u1")[0]; known == released {
				t.Errorf("released %v: the port is known: %v", released, known)
			}
		}
	})
}

func TestWhenAnExhaustedQuotaCausesTheReleaseOfRetainedPortsAndFloatingIPs(t *testing.T) {
	refusal := fault.New(fault.Quota, fault.CodePortQuotaExceeded, "full")
	server := testCluster.Tag(ServerKind, "u1", 0)
	ipTag := testCluster.Tag(FloatingIPKind, "u1", 0)
	for name, tc := range map[string]struct {
		machine Machine
		then    func(*Project)
		after   time.Duration
		want    []Retained
	}{
		"ports and floating IPs are released 90 seconds after the quota was exhausted, each floating IP before its port (CAPI-22)": {Machine{UID: "u1"}, nil, RetainedFor, []Retained{{ipTag, "ip"}, {portTag, "port-1"}}},
		"ports and floating IPs stay in the first 90 seconds after the quota was exhausted":                                        {Machine{UID: "u1"}, nil, RetainedFor - time.Second, nil},
		"ports and floating IPs stay while their Machine has a server":                                                             {Machine{UID: "u1"}, func(p *Project) { p.AddServer("u1", "s1", "worker-1", noon) }, time.Hour, nil},
		"ports and floating IPs stay while their Machine's spec.providerID names a server":                                         {Machine{UID: "u1", ServerID: "s1"}, nil, time.Hour, nil},
		"ports and floating IPs stay while it is in doubt whether a server of their Machine was created":                           {Machine{UID: "u1"}, func(p *Project) { p.attempted(server, noon) }, time.Hour, nil},
		"ports and floating IPs stay while a call is creating a resource of their Machine":                                         {Machine{UID: "u1"}, func(p *Project) { _ = p.BeginMaking("u1", Amounts{}, noon) }, time.Hour, nil},
		"ports and floating IPs stay while drover has not yet reconciled their Machine":                                            {Machine{UID: "u2"}, nil, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.Quotas.refused("other", refusal, Amounts{Ports: 1}, noon)
			p.SetPort(portTag, Port{ID: "port-1"}, noon)
			p.SetFloatingIP(ipTag, FloatingIP{ID: "ip"}, noon)
			if tc.then != nil {
				tc.then(p)
			}
			if got := p.Retained(2, noon.Add(tc.after)); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
