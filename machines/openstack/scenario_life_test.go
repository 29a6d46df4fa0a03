package openstack

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestLifeOfAMachineFromCreateToDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields().with("floatingIpPool", sim.MetaKubePool).with("tags", map[string]string{"team": "blue"}))
	i, s := b.active(m)

	t.Run("the server has the requested name, metadata, zone and server group, a port and a floating IP (MC-40)", func(t *testing.T) {
		got, _ := b.sim.Server(s.ID)
		if got.Name != "a" || got.Zone != sim.MetaKubeZone || got.ServerGroup != sim.MetaKubeServerGroup {
			t.Errorf("got %+v", got)
		}
		for key, want := range map[string]string{"machine-uid": "uid-a", state.MetadataClusterID: testCluster, "team": "blue"} {
			if got.Metadata[key] != want {
				t.Errorf("metadata %s is %q, want %q", key, got.Metadata[key], want)
			}
		}
		if len(got.Ports) != 1 || len(got.Floating) != 1 {
			t.Errorf("got ports %v, floating IPs %v", got.Ports, got.Floating)
		}
	})
	t.Run("the server gets the user data that drover sends with the create (MC-44)", func(t *testing.T) {
		if got, _ := b.sim.Server(s.ID); string(got.UserData) != "#cloud-config\n" {
			t.Errorf("got %q", got.UserData)
		}
	})
	t.Run("the server's addresses are one InternalIP, one ExternalIP and one Hostname (MC-53)", func(t *testing.T) {
		kinds := map[corev1.NodeAddressType]int{}
		for _, a := range b.observe(i).Server.Addresses {
			kinds[a.Type]++
		}
		if kinds[corev1.NodeInternalIP] != 1 || kinds[corev1.NodeExternalIP] != 1 || kinds[corev1.NodeHostName] != 1 {
			t.Errorf("got %v", b.observe(i).Server.Addresses)
		}
	})
	t.Run("the server's provider ID is openstack:/// followed by the server's ID", func(t *testing.T) {
		if want := "openstack:///" + s.ID; s.ProviderID != want {
			t.Errorf("got %s, want %s", s.ProviderID, want)
		}
	})
	t.Run("port and floating IP are deleted only after the server is gone (MC-50, MC-68)", func(t *testing.T) {
		if released, err := i.Release(b.ctx); released.Done || err != nil {
			t.Fatalf("released while the server exists: %v, %v", released.Done, err)
		}
		b.remove(i)
		b.nothingLeft()
		if f := b.observe(i); !f.Gone || f.Leftovers || f.Server != nil {
			t.Errorf("got %+v", f)
		}
		if gets := b.calls("GET /servers/{id}"); gets != 0 {
			t.Errorf("%d GETs of a server that the list showed DELETED", gets)
		}
	})
}

func TestCreatingTwentyMachinesTakesTwoCallsPerMachineAndOneListOfServersEveryTwoSeconds(t *testing.T) {
	t.Parallel()
	const n = 20
	b := newBench(t)
	b.active(newMachine(t, "first", seedFields()))
	b.sim.ForgetCalls()
	start := b.clock.Now()
	var all []cloud.Instance
	for k := range n {
		i := b.synced(newMachine(t, fmt.Sprintf("m%d", k), seedFields()))
		if _, err := b.make(i); err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	b.eventually("all servers are ACTIVE", func() bool {
		for _, i := range all {
			if s := b.observe(i).Server; s == nil || s.State != cloud.ServerActive {
				return false
			}
		}
		return true
	})
	polls := int(b.clock.Since(start)/state.FastPeriod) + 2
	for _, c := range []struct {
		rule, name string
		most       int
	}{
		{"each Machine needs one call that creates a port", "POST /ports", n}, {"each Machine needs one call that creates a server", "POST /servers", n},
		{"all Machines use the token that the project already has (CAPI-14, MCM-108)", "POST /auth/tokens", 0}, {"no flavor is looked up after the project's first Machine (CAPI-15)", "GET /flavors/detail", 0},
		{"no image is looked up after the project's first Machine (CAPI-15)", "GET /images", 0}, {"no network is looked up after the project's first Machine (CAPI-15)", "GET /networks", 0},
		{"no Machine needs a GET of its server (CAPI-31)", "GET /servers/{id}", 0}, {"servers are listed once per poll (CAPI-31)", "GET /servers/detail", polls},
		{"Nova receives only requests that create or list servers (MC-75)", "compute", n + polls}, {"Neutron receives only requests that create ports (MC-75)", "network", n},
	} {
		if got := b.calls(c.name); got > c.most {
			t.Errorf("%s: %d × %s, at most %d", c.rule, got, c.name, c.most)
		}
	}
	if got := b.calls("POST /ports") + b.calls("POST /servers"); got != 2*n {
		t.Errorf("%d creates for %d machines", got, n)
	}
}

func TestForAProjectsFirstMachineDroverLooksUpEachResourceOfTheSpecOnlyOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.active(newMachine(t, "a", seedFields().with("floatingIpPool", sim.MetaKubePool)))
	for name, want := range map[string]int{
		"POST /auth/tokens": 1, "GET /flavors/detail": 1, "GET /images": 1, "GET /networks": 2, "GET /subnets": 1,
		"GET /security-groups": 1, "GET /os-server-groups": 1, "GET /os-availability-zone": 1,
		"GET /ports": 1, "GET /floatingips": 1, "POST /ports": 1, "POST /floatingips": 1, "POST /servers": 1,
	} {
		if got := b.calls(name); got != want {
			t.Errorf("%s: %d calls, want %d", name, got, want)
		}
	}
}

func TestWhileNoMachineChangesDroverMakesAboutOneCallToTheCloudPerMinute(t *testing.T) {
	t.Parallel()
	t.Run("drover makes at most ten calls to the cloud in nine minutes in which no Machine changes (CAPI-32)", func(t *testing.T) {
		b := newBench(t)
		b.active(newMachine(t, "a", seedFields()))
		b.pass(2 * time.Minute)
		b.sim.ForgetCalls()
		b.pass(9 * time.Minute)
		if got := b.calls(); got > 10 {
			t.Errorf("CAPI-32: %d calls in 9 minutes at rest: %v", got, b.sim.CallsByName())
		}
	})
}

func TestOnlyTheMachineWhoseServerChangedIsReconciled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.stop()
	c, err := New(b.options)
	if err != nil {
		t.Fatal(err)
	}
	b.cloud = c
	// A Machine that is known only after the first list would not be reconciled for it.
	i := b.instance(newMachine(t, "a", seedFields()))
	b.instance(newMachine(t, "b", seedFields()))
	go func() { _ = c.Start(b.ctx) }()
	heard := map[string]int{}
	listen := func() bool {
		select {
		case key := <-c.Changes():
			heard[key.String()]++
		default:
		}
		return false
	}
	b.eventually("all Machines are reconciled after the first list", func() bool {
		listen()
		return heard["kube-system/a"] == 1 && heard["kube-system/b"] == 1
	})
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	b.eventually("the Machine is reconciled after ACTIVE", func() bool {
		listen()
		s := b.observe(i).Server
		return heard["kube-system/a"] > 1 && s != nil && s.State == cloud.ServerActive
	})
	if heard["kube-system/b"] != 1 {
		t.Errorf("another Machine was reconciled %d times", heard["kube-system/b"])
	}
}
