//go:build cluster

package main

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// recorded returns how many Machines have a provider ID.
func (p *pair) recorded() (n int) {
	var list v1alpha1.MachineList
	must(p.T, p.client.List(p.Context(), &list))
	for i := range list.Items {
		if list.Items[i].Spec.ProviderID != nil {
			n++
		}
	}
	return n
}

// wrote returns the writes of a user between two times, except those of leases and Events.
func (p *pair) wrote(user string, from, to time.Time) (writes []string) {
	requests, err := p.kube.Requests()
	must(p.T, err)
	for _, r := range requests {
		if r.User == user && r.Wrote() && r.Resource != "leases" && r.Resource != "events" && r.At.After(from) && r.At.Before(to) {
			writes = append(writes, r.Verb+" "+r.URI)
		}
	}
	return writes
}

// midway starts two replicas, creates n Machines, and returns the leading process once it has created some of their servers.
func (p *pair) midway(n int) *exec.Cmd {
	p.Helper()
	first := p.replica("first")
	p.until("the first one leads", func() bool { return p.lease().Spec.HolderIdentity != nil })
	p.replica("second")
	p.machines(n)
	p.until("it has made some servers", func() bool { return p.accepted("POST /servers") >= 3 })
	return first
}

func TestALeaderThatIsSuspendedWhileItCreatesServers(t *testing.T) {
	t.Parallel()
	const n = 60
	p := newPair(t)
	first := p.midway(n)
	must(t, first.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	p.until("its lease is too old to make anything", func() bool { return time.Since(stopped) > leaseFresh })
	// The test takes the lease away from the suspended leader at once. Otherwise it would have to wait until the lease expires.
	taken := p.handOver()
	must(t, first.Process.Signal(syscall.SIGCONT))
	p.until("every Machine has its server", func() bool { return p.recorded() == n })

	t.Run("each Machine has one server and one port in the end, and no other server was requested (MC-78, MCM-109)", func(t *testing.T) { p.checkNothingTwice(t, n) })
	t.Run("the second replica wrote nothing before it was leader, and no replica called the cloud while there was no leader (MC-78)", func(t *testing.T) {
		if w := p.wrote("second", time.Time{}, taken); len(w) > 0 {
			t.Errorf("it wrote %q", w)
		}
		for _, c := range p.cloud.Calls() {
			// Requests that the first leader had sent before it was suspended are still carried out.
			if c.Time.After(stopped.Add(time.Second)) && c.Time.Before(taken) {
				t.Errorf("%s at %v, when nobody led (from %v to %v)", c.Name(), c.Time, stopped, taken)
			}
		}
	})
	t.Run("the second replica calls the cloud within 5 seconds after it became leader (CAPI-56)", func(t *testing.T) { p.checkPromptStart(t, taken) })
}

// handOver takes the lease from its holder. It returns when the other replica has taken the lease.
func (p *pair) handOver() time.Time {
	l := p.lease()
	holder := *l.Spec.HolderIdentity
	*l.Spec.HolderIdentity = ""
	must(p.T, p.client.Update(p.Context(), l))
	p.until("the other one leads", func() bool { h := *p.lease().Spec.HolderIdentity; return h != "" && h != holder })
	return p.lease().Spec.AcquireTime.Time
}

// checkNothingTwice checks that one server was requested for each of n Machines, and that each server has one port. The first
// leader may have left a port without a server. The next leader must delete such a port before it creates another one, because
// the first leader may also have requested a server with it (F-21).
func (p *pair) checkNothingTwice(t *testing.T, n int) {
	t.Helper()
	left := p.cloud.Leftovers()
	if s := p.accepted("POST /servers"); s != n || len(left.Servers) != n || len(left.Ports) != n {
		t.Errorf("made %d servers for %d Machines; there are %d, and %d ports", s, n, len(left.Servers), len(left.Ports))
	}
	if made, deleted := p.accepted("POST /ports"), p.accepted("DELETE /ports/{id}"); made != n+deleted {
		t.Errorf("made %d ports for %d Machines and deleted %d", made, n, deleted)
	}
}

// checkPromptStart checks that the new leader called the cloud within five seconds after it took the lease.
func (p *pair) checkPromptStart(t *testing.T, taken time.Time) {
	t.Helper()
	for _, c := range p.cloud.Calls() {
		if c.Time.After(taken) {
			if took := c.Time.Sub(taken); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			return
		}
	}
	t.Error("it asked nothing at all")
}

func TestALeaderThatStopsWhileItCreatesServers(t *testing.T) {
	t.Parallel()
	const n = 12
	p := newPair(t)
	first := p.midway(n)
	must(t, first.Process.Signal(syscall.SIGTERM))
	must(t, first.Wait())
	p.until("every Machine has its server", func() bool { return p.recorded() == n })
	t.Run("the next leader calls the cloud within 5 seconds, and no server is requested twice (CAPI-56)", func(t *testing.T) {
		p.checkPromptStart(t, p.lease().Spec.AcquireTime.Time)
		p.checkNothingTwice(t, n)
	})
}
