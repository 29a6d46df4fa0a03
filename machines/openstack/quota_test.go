package openstack

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

func uid(text string) types.UID { return types.UID(text) }

func TestQuotaBook(t *testing.T) {
	refusal := fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for instances")
	one := Amounts{Instances: 1, Cores: 2, RAMMiB: 8192, Ports: 1}
	hit := func() *quotaBook {
		b := newQuotaBook()
		b.refused("first", refusal, one, noon)
		return b
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if e := fault.Of(err); e == nil || e.Code != fault.CodeQuotaExceeded {
			t.Fatalf("got %v", err)
		}
	}
	t.Run("nothing is asked while no quota was hit", func(t *testing.T) {
		if err := newQuotaBook().take("a", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("CAPI-22 after a refusal everybody is refused alike, without a call", func(t *testing.T) {
		refused(t, hit().take("a", one, noon))
	})
	t.Run("CAPI-22 what is free is promised once", func(t *testing.T) {
		b := hit()
		if !b.looked(client.Compute, Amounts{2, 100, 1 << 20}, noon) || b.raised != noon {
			t.Fatal("room was not noticed")
		}
		for _, m := range []string{"a", "b", "a"} {
			if err := b.take(uid(m), one, noon); err != nil {
				t.Fatalf("%s: %v", m, err)
			}
		}
		refused(t, b.take("c", one, noon))
	})
	t.Run("what is smaller may fit where the larger does not", func(t *testing.T) {
		b := hit()
		b.looked(client.Compute, Amounts{9, 1, 1 << 20}, noon)
		refused(t, b.take("a", one, noon))
		if err := b.take("b", Amounts{Instances: 1, Cores: 1}, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a promise that was kept does not count twice", func(t *testing.T) {
		b := hit()
		b.looked(client.Compute, Amounts{2, 100, 1 << 20}, noon)
		_ = b.take("a", one, noon)
		b.made("a", one)
		b.looked(client.Compute, Amounts{1, 100, 1 << 20}, noon.Add(quotaPeriod))
		if err := b.take("b", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a promise that was not kept ends", func(t *testing.T) {
		b := hit()
		b.looked(client.Compute, Amounts{1, 100, 1 << 20}, noon)
		_ = b.take("a", one, noon)
		b.looked(client.Compute, Amounts{1, 100, 1 << 20}, noon.Add(quotaPeriod))
		refused(t, b.take("b", one, noon))
		b.looked(client.Compute, Amounts{1, 100, 1 << 20}, noon.Add(3*quotaPeriod))
		if err := b.take("b", one, noon); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("the watch ends when nobody was turned away for a period", func(t *testing.T) {
		b := hit()
		b.looked(client.Compute, Amounts{5, 100, 1 << 20}, noon)
		b.looked(client.Compute, Amounts{5, 100, 1 << 20}, noon.Add(quotaPeriod))
		if len(b.watches) != 0 {
			t.Fatal("it is still watched")
		}
	})
	t.Run("a few refusals that the limits do not explain stop nobody else, more of them do", func(t *testing.T) {
		b := hit()
		b.looked(client.Compute, Amounts{100, 1000, 1 << 30}, noon)
		for range mostDoubts {
			b.refused("odd", refusal, one, noon)
			if err := b.take("a", one, noon); err != nil {
				t.Fatal(err)
			}
		}
		b.refused("odd", refusal, one, noon)
		refused(t, b.take("b", one, noon))
	})
	t.Run("limits that cannot be read let one try per period", func(t *testing.T) {
		b := hit()
		if !b.unreadable(client.Compute, noon) {
			t.Fatal("nobody is told to try")
		}
		if err := b.take("a", one, noon); err != nil {
			t.Fatal(err)
		}
		refused(t, b.take("b", one, noon))
	})
	t.Run("CAPI-22 what is kept goes after two steps of the back-off", func(t *testing.T) {
		b := hit()
		b.looked(client.Compute, Amounts{}, noon)
		if b.exhausted(noon.Add(keptFor-time.Second)) || !b.exhausted(noon.Add(keptFor)) {
			t.Fatal("not after two steps")
		}
	})
}

func TestWhoseQuotaItIs(t *testing.T) {
	for code, want := range map[fault.Code]client.Service{
		fault.CodeQuotaExceeded: client.Compute, fault.CodePortQuotaExceeded: client.Network,
		fault.CodeFloatingIPQuotaExceeded: client.Network, fault.CodeVolumeQuotaExceeded: client.Volume,
	} {
		if got := quotaOwner(code); got != want {
			t.Errorf("%s: got %s", code, got)
		}
	}
}

func TestAQuotaThatIsHitStopsCreatesUntilItIsRaised(t *testing.T) {
	const allowed, all = 3, 10
	for name, tc := range map[string]struct {
		quota, raised sim.Quota
		look          string
	}{
		"CAPI-22 instances, at Nova": {sim.Quota{Instances: allowed}, sim.Quota{Instances: 100}, "GET /limits"},
		"CAPI-22 cores, at Nova":     {sim.Quota{Cores: 2 * allowed}, sim.Quota{Cores: 200}, "GET /limits"},
		"CAPI-22 ports, at Neutron":  {sim.Quota{Ports: allowed}, sim.Quota{Ports: 100}, "GET /quotas/{project}/details.json"},
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
			b.eventually("all know that it was raised", func() bool { return b.observe(waiting[all-1]).QuotaRaised.After(changed) })
			if took := b.clock.Since(changed); took > quotaPeriod+3*time.Second {
				t.Errorf("it took %s to notice", took)
			}
			if got := try(); got != 0 {
				t.Errorf("%d are still refused", got)
			}
			if left := b.sim.Leftovers(); len(left.Servers) != all || len(left.Ports) != all {
				t.Errorf("%d servers, %d ports", len(left.Servers), len(left.Ports))
			}
			if got := b.calls("POST /servers") - (all - allowed); got != 0 {
				t.Errorf("%d creates in vain", got)
			}
		})
	}
}

func TestWhatIsKeptForARefusedServerGoesAfterAWhile(t *testing.T) {
	b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{Instances: 1} })
	b.active(newMachine(t, "first", fullFields()))
	i := b.synced(newMachine(t, "a", fullFields()))
	if _, err := b.make(i); !fault.Is(err, fault.Quota) {
		t.Fatalf("got %v", err)
	}
	b.pass(keptFor / 2)
	if left := b.sim.Leftovers(); len(left.Ports) != 2 || len(left.FloatingIPs) != 2 {
		t.Fatalf("CAPI-22: port and address are kept for the next try: %+v", left)
	}
	b.eventually("they are released", func() bool {
		left := b.sim.Leftovers()
		return len(left.Ports) == 1 && len(left.FloatingIPs) == 1
	})
	b.sim.SetQuota("", sim.Quota{})
	b.eventually("made after all", func() bool { _, err := b.make(i); return err == nil })
	b.eventually("active", func() bool { s := b.observe(i).Server; return s != nil && s.State == cloud.ServerActive })
	b.remove(i)
	if left := b.sim.Leftovers(); len(left.Servers) != 1 || len(left.Ports) != 1 || len(left.FloatingIPs) != 1 {
		t.Errorf("left %+v", left)
	}
}

func TestAVolumeQuotaThatShowsAsAFaultIsWatched(t *testing.T) {
	b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{Volumes: 1} })
	spec := func() fields { return seedFields().with("rootDiskSizeGB", 20) }
	b.active(newMachine(t, "first", spec()))
	i := b.synced(newMachine(t, "a", spec()))
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	b.eventually("in ERROR", func() bool { s := b.observe(i).Server; return s != nil && s.State == cloud.ServerError })
	if f := b.observe(i).Server.Fault; f.Class != fault.Quota || f.Code != fault.CodeVolumeQuotaExceeded {
		t.Fatalf("MC-47: got %+v", f)
	}
	other := b.synced(newMachine(t, "b", spec()))
	b.sim.ForgetCalls()
	if _, err := b.make(other); !fault.Is(err, fault.Quota) {
		t.Fatalf("CAPI-22: a volume may not be made, so nothing is: %v", err)
	}
	if _, err := b.make(b.synced(newMachine(t, "c", seedFields()))); err != nil {
		t.Errorf("who needs no volume is not concerned: %v", err)
	}
	if got := b.calls("POST /ports"); got != 1 {
		t.Errorf("%d ports", got)
	}
}

func TestLimitsThatMayNotBeReadLetOneTry(t *testing.T) {
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
				t.Fatal("made beyond the quota")
			}
		}
		b.pass(6 * time.Second)
	}
	if got := b.calls("POST /servers"); got < 3 || got > 7 {
		t.Errorf("%d tries in two minutes", got)
	}
}

func TestAFullServerGroupStopsNobodyElse(t *testing.T) {
	t.Run("CAPI-28 and is told apart from other quotas", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{ServerGroupMembers: 1} })
		b.active(newMachine(t, "first", seedFields()))
		i := b.synced(newMachine(t, "a", seedFields()))
		_, err := b.make(i)
		if e := fault.Of(err); e == nil || e.Class != fault.NoCapacity || e.Code != fault.CodeServerGroupFull {
			t.Fatalf("CAPI-28: got %v", err)
		}
		if _, err := b.make(b.synced(newMachine(t, "b", seedFields().with("serverGroupID", nil)))); err != nil {
			t.Errorf("who is in no group is not concerned: %v", err)
		}
	})
}
