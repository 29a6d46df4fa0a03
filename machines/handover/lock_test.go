package handover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/drover-project/drover/test/kube/memory"
)

const (
	life     = 15 * time.Second
	deadline = 10 * time.Second
	retry    = 2 * time.Second
	// patience is the longest time between two attempts of a waiting program: client-go adds up to 120 %.
	patience = retry * 22 / 10
)

// election holds an API server and the programs that compete for its leases.
type election struct {
	*testing.T
	server *memory.Server

	mu sync.Mutex
	// acting holds the programs that lead now. clashes describes each case in which two programs led at once.
	acting  map[string]bool
	clashes []string
}

func newElection(t *testing.T) *election {
	t.Helper()
	server, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &election{T: t, server: server, acting: map[string]bool{}}
	t.Cleanup(func() {
		for _, clash := range e.clashes {
			t.Error(clash)
		}
	})
	return e
}

// cut is a connection to the API server. While off is true, every request fails.
type cut struct {
	next http.RoundTripper
	mu   sync.Mutex
	off  bool
}

func (c *cut) set(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	off := c.off
	c.mu.Unlock()
	if off {
		return nil, errors.New("cut off")
	}
	return c.next.RoundTrip(r)
}

func (e *election) client(user string) (kubernetes.Interface, *cut) {
	e.Helper()
	config := rest.CopyConfig(e.server.Config(user))
	line := &cut{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		line.next = next
		return line
	})
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		e.Fatal(err)
	}
	return c, line
}

func lockOf(c kubernetes.Interface, namespace, name, identity string) resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: c.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// program is a program that takes part in leader election.
type program struct {
	stop func()
	line *cut
}

// run starts a program that takes part in leader election until it is stopped. Like the real programs, it starts again when it
// loses its lease.
func (e *election) run(name string, lock resourcelock.Interface, line *cut, release bool) *program {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: life, RenewDeadline: deadline, RetryPeriod: retry, ReleaseOnCancel: release, Name: name,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { e.act(name, true) },
					OnStoppedLeading: func() { e.act(name, false) },
				},
			})
		}
	})
	p := &program{line: line, stop: func() {
		cancel()
		ended.Wait()
	}}
	e.Cleanup(p.stop)
	return p
}

func (e *election) act(name string, acts bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !acts {
		delete(e.acting, name)
		return
	}
	for other := range e.acting {
		e.clashes = append(e.clashes, fmt.Sprintf("%s acts while %s does", name, other))
	}
	e.acting[name] = true
}

func (e *election) expect(want string) {
	e.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if want == "" && len(e.acting) == 0 || len(e.acting) == 1 && e.acting[want] {
		return
	}
	e.Errorf("%v act, want %q", e.acting, want)
}

func (e *election) machineController() *program {
	c, line := e.client("machine-controller")
	// machine-controller does not release its lease.
	return e.run("machine-controller", lockOf(c, "kube-system", "machine-controller", "machine-controller_1"), line, false)
}

func (e *election) drover(name string) *program {
	c, line := e.client(name)
	lock := NewLock(LockOptions{
		Own: lockOf(c, "default", "drover", name), Other: lockOf(c, "kube-system", "machine-controller", Holder("default")), Holder: Holder("default"),
	})
	return e.run(name, lock, line, true)
}

// olderDrover runs a drover that acquires only its own lease, as older versions did.
func (e *election) olderDrover(name string) *program {
	c, line := e.client(name)
	return e.run(name, lockOf(c, "default", "drover", name), line, true)
}

func (e *election) lease(name, namespace string) *coordinationv1.Lease {
	e.Helper()
	c, _ := e.client("admin")
	lease, err := c.CoordinationV1().Leases(namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return lease
}

func TestOnlyOneProgramLeads(t *testing.T) {
	for name, play := range map[string]func(e *election){
		"drover waits while machine-controller runs, and leads once machine-controller's lease has expired (MC-78)": func(e *election) {
			predecessor := e.machineController()
			time.Sleep(retry)
			e.drover("drover-a")
			time.Sleep(time.Hour)
			e.expect("machine-controller")
			predecessor.stop()
			time.Sleep(life - 2*retry)
			e.expect("")
			time.Sleep(life)
			e.expect("drover-a")
		},
		"machine-controller waits while drover runs (MC-78)": func(e *election) {
			successor := e.drover("drover-a")
			time.Sleep(patience)
			e.machineController()
			time.Sleep(time.Hour)
			e.expect("drover-a")
			successor.stop()
			time.Sleep(life + 3*patience)
			e.expect("machine-controller")
		},
		"another replica of drover takes over at once, before machine-controller, when the leader stops (MC-78)": func(e *election) {
			first := e.drover("drover-a")
			time.Sleep(patience)
			e.machineController()
			e.drover("drover-b")
			time.Sleep(time.Minute)
			e.expect("drover-a")
			first.stop()
			time.Sleep(patience)
			e.expect("drover-b")
			time.Sleep(time.Minute)
			e.expect("drover-b")
		},
		"another replica of drover takes over from a killed replica when the killed replica's lease has expired (MC-78)": func(e *election) {
			first := e.drover("drover-a")
			time.Sleep(retry)
			e.drover("drover-b")
			time.Sleep(time.Minute)
			first.line.set(true)
			time.Sleep(life + 3*patience)
			e.expect("drover-b")
		},
		"drover leads after one lease duration when machine-controller stopped a day ago and left its lease (MC-78)": func(e *election) {
			old := e.machineController()
			time.Sleep(retry)
			old.stop()
			time.Sleep(24 * time.Hour)
			e.drover("drover-a")
			time.Sleep(life + 3*patience)
			e.expect("drover-a")
		},
		"drover waits while an older version of drover leads without renewing machine-controller's lease (MC-78)": func(e *election) {
			old := e.machineController()
			time.Sleep(retry)
			old.stop()
			time.Sleep(24 * time.Hour)
			first := e.olderDrover("drover-old")
			time.Sleep(patience)
			e.drover("drover-a")
			time.Sleep(time.Hour)
			e.expect("drover-old")
			first.stop()
			time.Sleep(life + 3*patience)
			e.expect("drover-a")
		},
		"when an older version of drover cannot reach the API server, drover leads once the old version's lease has expired (MC-78)": func(e *election) {
			old := e.machineController()
			time.Sleep(retry)
			old.stop()
			first := e.olderDrover("drover-old")
			time.Sleep(patience)
			e.drover("drover-a")
			time.Sleep(time.Minute)
			first.line.set(true)
			time.Sleep(life - retry)
			e.expect("")
			time.Sleep(3 * patience)
			e.expect("drover-a")
		},
		"drover leads at once when there is no machine-controller (MC-78)": func(e *election) {
			e.drover("drover-a")
			synctest.Wait()
			e.expect("drover-a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(newElection(t)) })
		})
	}
}

// A lease that was deleted by hand can be acquired by any program. drover notices the loss with its next renewal.
func TestDroverStopsLeadingWhenAnotherProgramTakesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.drover("drover-a")
		time.Sleep(time.Minute)
		e.expect("drover-a")
		admin, _ := e.client("admin")
		lease := e.lease("machine-controller", "kube-system")
		holder, now := "machine-controller_1", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &now
		if _, err := admin.CoordinationV1().Leases("kube-system").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(deadline + patience)
		e.expect("")
		if h := e.lease("machine-controller", "kube-system").Spec.HolderIdentity; *h != holder {
			t.Errorf("the lease is %s's", *h)
		}
		time.Sleep(life + 3*patience)
		e.expect("drover-a")
	})
}

// While another program holds machine-controller's lease, Get must return when a drover last renewed drover's own lease.
func TestWhileMachineControllerLeadsTheLockShowsWhenDroverLastLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		c, _ := e.client("drover-a")
		own, other := lockOf(c, "default", "drover", "drover-old"), lockOf(c, "kube-system", "machine-controller", "machine-controller_1")
		lock := NewLock(LockOptions{Own: lockOf(c, "default", "drover", "drover-a"), Other: other, Holder: Holder("default")})
		renewed := func() metav1.Time {
			t.Helper()
			record, _, err := lock.Get(t.Context())
			if err != nil || record.HolderIdentity != "machine-controller_1" {
				t.Fatalf("Get() = %+v, %v", record, err)
			}
			return record.RenewTime
		}
		record := func(holder string, age time.Duration) resourcelock.LeaderElectionRecord {
			at := metav1.NewTime(time.Now().Add(-age))
			return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15, AcquireTime: at, RenewTime: at}
		}
		if err := other.Create(t.Context(), record("machine-controller_1", 0)); err != nil {
			t.Fatal(err)
		}
		if at := renewed(); !at.IsZero() {
			t.Errorf("Get() shows a renewal at %s, but no drover has ever led", at)
		}
		yesterday := record("drover-old", 24*time.Hour)
		if err := own.Create(t.Context(), yesterday); err != nil {
			t.Fatal(err)
		}
		if at := renewed(); !at.Time.Equal(yesterday.RenewTime.Time) {
			t.Errorf("Get() shows a renewal at %s, want %s", at, yesterday.RenewTime)
		}
	})
}

func TestParseLeaseReadsNamespaceAndName(t *testing.T) {
	for text, want := range map[string]struct {
		named, ok bool
	}{
		"kube-system/machine-controller": {true, true}, "": {false, true}, "machine-controller": {false, false}, "/x": {false, false}, "x/": {false, false}, "a/b/c": {false, false},
	} {
		if _, _, named, err := ParseLease(text); named != want.named || (err == nil) != want.ok {
			t.Errorf("%q: named is %v, the error %v", text, named, err)
		}
	}
}
