package machine_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// term is a leader election lease with the time of its last renewal.
type term struct{ renewed time.Time }

func (t *term) Fresh(now time.Time) bool { return now.Sub(t.renewed) <= 8*time.Second }

// under restarts the bench's process with a lease that has just been renewed.
func (b *bench) under(l *term) {
	l.renewed = b.clock.Now()
	o := b.options
	o.Lease = l
	b.start(o)
}

func TestDroverChangesNothingWhileItsLeaseIsNotRenewedInTime(t *testing.T) {
	t.Run("drover creates and writes nothing, and requeues the Machine after a second", func(t *testing.T) {
		b := newBench(t, func(m *v1alpha1.Machine) { m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode} })
		b.under(&term{})
		b.wait(9 * time.Second)
		before := b.read().ResourceVersion
		result := b.pass()
		var tokens corev1.SecretList
		if err := b.memory.client.List(t.Context(), &tokens); err != nil {
			t.Fatal(err)
		}
		if n := b.cloud.count("Prepare") + b.cloud.count("EnsureServer") + len(tokens.Items); n != 0 || result.RequeueAfter != time.Second || b.read().ResourceVersion != before {
			t.Errorf("%d creates, result %v, %+v", n, result, b.read())
		}
	})
	for _, tt := range []struct {
		name, call string
		after      map[string]int
	}{
		{"drover does not create the server when drover's lease becomes too old during the creation of the server's ports", "Prepare", map[string]int{"Prepare": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			lease := &term{}
			b.under(lease)
			b.cloud.during = func(call string) {
				if call == tt.call {
					b.wait(time.Minute)
				}
			}
			b.pass()
			for _, call := range []string{"Prepare", "EnsureServer"} {
				if n := b.cloud.count(call); n != tt.after[call] {
					t.Errorf("%d calls of %s", n, call)
				}
			}
			b.cloud.during = nil
			lease.renewed = b.clock.Now()
			b.pass()
			if b.read().Spec.ProviderID == nil || b.cloud.made != 1 {
				t.Errorf("after the renewal: %d servers, %+v", b.cloud.made, b.read())
			}
		})
	}
	t.Run("drover does not write the status of a Machine, because a new leader may write it", func(t *testing.T) {
		b := newBench(t, nil)
		lease := &term{}
		b.under(lease)
		b.pass()
		before := b.read().ResourceVersion
		b.cloud.servers["u"].State, b.cloud.servers["u"].Status = cloud.ServerOther, "SHUTOFF"
		b.wait(time.Minute)
		if b.pass(); b.read().ResourceVersion != before {
			t.Errorf("written under an old lease: %+v", b.read().Status)
		}
		lease.renewed = b.clock.Now()
		if b.pass(); b.read().ResourceVersion == before {
			t.Error("not written under a fresh lease either")
		}
	})
	t.Run("drover deletes no server until it has renewed its lease", func(t *testing.T) {
		b := newBench(t, nil)
		lease := &term{}
		b.under(lease)
		b.pass()
		b.end()
		b.wait(time.Minute)
		b.pass()
		if n := b.cloud.count("DeleteServer"); n != 0 {
			t.Errorf("%d servers deleted under an old lease", n)
		}
		for range 3 {
			lease.renewed = b.clock.Now()
			b.pass()
		}
		if b.read().Name != "" || b.cloud.count("DeleteServer") != 1 {
			t.Errorf("after the renewal: %+v", b.read())
		}
	})
}

func TestALeaseThatIsLostDuringTheCreationOfAServerLeavesOneServer(t *testing.T) {
	for _, tt := range []struct{ name, call string }{
		{"the new leader creates no second server when the lease is lost while the port is created (MCM-109)", "Prepare"},
		{"the new leader creates no second server when the lease is lost while the server is created (MCM-109)", "EnsureServer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.under(&term{})
			old := b.machine
			b.cloud.during = func(call string) {
				if call != tt.call {
					return
				}
				b.cloud.during = nil
				b.wait(time.Minute)
				b.under(&term{})
				b.pass() // the new leader reconciles while the old leader's call is in progress
				b.machine, old = old, b.machine
			}
			b.pass()
			b.pass() // the old leader reconciles again: it has not noticed yet that another process has the lease
			b.machine = old
			b.pass()
			m := b.read()
			if b.cloud.made != 1 || ptr.Deref(m.Spec.ProviderID, "") != b.cloud.servers["u"].ProviderID {
				t.Errorf("%d servers, provider ID %v", b.cloud.made, ptr.Deref(m.Spec.ProviderID, ""))
			}
			b.end()
			for range 3 {
				b.under(&term{})
				b.pass()
			}
			if b.read().Name != "" || b.cloud.servers["u"].exists || b.cloud.servers["u"].leftovers {
				t.Errorf("left over: %+v", b.cloud.servers["u"])
			}
		})
	}
}
