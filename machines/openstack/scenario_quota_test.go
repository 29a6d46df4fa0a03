package openstack

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestNothingIsCreatedWhileAQuotaIsExhausted(t *testing.T) {
	t.Parallel()
	const allowed, all = 3, 10
	for name, tc := range map[string]struct {
		quota, raised sim.Quota
		look          string
	}{
		"no server or port is created until Nova's exhausted quota for instances is raised (CAPI-22)": {sim.Quota{Instances: allowed}, sim.Quota{Instances: 100}, "GET /limits"},
		"no server or port is created until Nova's exhausted quota for cores is raised (CAPI-22)":     {sim.Quota{Cores: 2 * allowed}, sim.Quota{Cores: 200}, "GET /limits"},
		"no server or port is created until Neutron's exhausted quota for ports is raised (CAPI-22)":  {sim.Quota{Ports: allowed}, sim.Quota{Ports: 100}, "GET /quotas/{project}/details.json"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, tc.quota })
			var waiting []cloud.Instance
			try := func() (refused int) {
				for _, i := range waiting {
					if b.observe(i).Server == nil {
						if _, err := b.make(i); fault.Is(err, fault.Quota) {
							refused++
						} else if err != nil && !fault.Is(err, fault.RateLimited) {
							t.Fatal(err)
						}
					}
				}
				return refused
			}
			for k := range all {
				waiting = append(waiting, b.synced(newMachine(t, fmt.Sprintf("m%d", k), seedFields())))
			}
			if got := try(); got != all-allowed {
				t.Fatalf("%d were refused", got)
			}
			b.pass(3 * time.Second)
			b.sim.ForgetCalls()
			for range 10 {
				try()
				b.pass(6 * time.Second)
			}
			if got := b.calls("POST /ports", "POST /servers"); got != 0 {
				t.Errorf("%d creates while the quota is exhausted", got)
			}
			if got := b.calls(tc.look); got < 1 || got > 3 {
				t.Errorf("%d looks in a minute", got)
			}
			b.sim.SetQuota("", tc.raised)
			changed := b.clock.Now()
			b.eventually("all Machines see that the quota was raised", func() bool { return b.observe(waiting[all-1]).QuotaRaised.After(changed) })
			if took := b.clock.Since(changed); took > state.QuotaPeriod+3*time.Second {
				t.Errorf("it took %s to notice", took)
			}
			if got := try(); got != 0 {
				t.Errorf("%d are still refused", got)
			}
			if left := b.sim.Leftovers(); len(left.Servers) != all || len(left.Ports) != all {
				t.Errorf("%d servers, %d ports", len(left.Servers), len(left.Ports))
			}
			if got := b.calls("POST /servers") - (all - allowed); got != 0 {
				t.Errorf("%d creates without success", got)
			}
		})
	}
}

func TestRetainedPortAndFloatingIPAreReleasedForOtherMachinesWhenAQuotaStaysExhausted(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{Instances: 1} })
	b.active(newMachine(t, "first", fullFields()))
	i := b.synced(newMachine(t, "a", fullFields()))
	if _, err := b.make(i); !fault.Is(err, fault.Quota) {
		t.Fatalf("got %v", err)
	}
	b.pass(state.RetainedFor / 2)
	if left := b.sim.Leftovers(); len(left.Ports) != 2 || len(left.FloatingIPs) != 2 {
		t.Fatalf("CAPI-22: port and floating IP are not retained: %+v", left)
	}
	b.eventually("the resources are released", func() bool {
		left := b.sim.Leftovers()
		return len(left.Ports) == 1 && len(left.FloatingIPs) == 1
	})
	b.sim.SetQuota("", sim.Quota{})
	b.eventually("the server is created after all", func() bool { _, err := b.make(i); return err == nil })
	b.eventually("the server is active", func() bool { s := b.observe(i).Server; return s != nil && s.State == cloud.ServerActive })
	b.remove(i)
	if left := b.sim.Leftovers(); len(left.Servers) != 1 || len(left.Ports) != 1 || len(left.FloatingIPs) != 1 {
		t.Errorf("left %+v", left)
	}
}

func TestNoServerWithAVolumeIsCreatedAfterAnotherServerFailedForLackOfVolumeQuota(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{Volumes: 1} })
	spec := func() fields { return seedFields().with("rootDiskSizeGB", 20) }
	b.active(newMachine(t, "first", spec()))
	i := b.synced(newMachine(t, "a", spec()))
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	b.eventually("the server is in ERROR", func() bool { s := b.observe(i).Server; return s != nil && s.State == cloud.ServerError })
	if f := b.observe(i).Server.Fault; f.Class != fault.Quota || f.Code != fault.CodeVolumeQuotaExceeded {
		t.Fatalf("MC-47: got %+v", f)
	}
	other := b.synced(newMachine(t, "b", spec()))
	b.sim.ForgetCalls()
	if _, err := b.make(other); !fault.Is(err, fault.Quota) {
		t.Fatalf("CAPI-22: resources were created although the volume quota is exhausted: %v", err)
	}
	if _, err := b.make(b.synced(newMachine(t, "c", seedFields()))); err != nil {
		t.Errorf("a Machine without a volume is affected: %v", err)
	}
	if got := b.calls("POST /ports"); got != 1 {
		t.Errorf("%d ports", got)
	}
}

func TestOneServerCreationIsTriedPerHalfMinuteWhileNovasLimitsCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{Instances: 1} })
	b.active(newMachine(t, "first", seedFields()))
	b.sim.Inject(sim.Fault{Call: "GET /limits", Status: http.StatusForbidden})
	var machines []*v1alpha1.Machine
	for k := range 5 {
		machines = append(machines, newMachine(t, fmt.Sprintf("m%d", k), seedFields()))
	}
	b.sim.ForgetCalls()
	for range 20 {
		for _, m := range machines {
			if _, err := b.make(b.synced(m)); err == nil {
				t.Fatal("created beyond the quota")
			}
		}
		b.pass(6 * time.Second)
	}
	if got := b.calls("POST /servers"); got < 3 || got > 7 {
		t.Errorf("%d tries in two minutes", got)
	}
}

func TestFullServerGroupStopsNoOtherMachine(t *testing.T) {
	t.Parallel()
	t.Run("a full server group does not count as an exhausted quota of the project (CAPI-28)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{ServerGroupMembers: 1} })
		b.active(newMachine(t, "first", seedFields()))
		i := b.synced(newMachine(t, "a", seedFields()))
		_, err := b.make(i)
		if e := fault.Of(err); e == nil || e.Class != fault.NoCapacity || e.Code != fault.CodeServerGroupFull {
			t.Fatalf("CAPI-28: got %v", err)
		}
		if _, err := b.make(b.synced(newMachine(t, "b", seedFields().with("serverGroupID", nil)))); err != nil {
			t.Errorf("a Machine without a server group is affected: %v", err)
		}
	})
}
