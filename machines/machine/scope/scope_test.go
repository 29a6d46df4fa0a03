package scope

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	openstack "github.com/drover-project/drover/machines/openstack/provider"
)

// harness is a store with one Machine in memory.
type harness struct {
	t       *testing.T
	store   *Store
	client  client.WithWatch
	clock   *clocktesting.FakeClock
	events  *events.FakeRecorder
	patches int
	refusal error
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), events: events.NewFakeRecorder(10)}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	h.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if h.refusal != nil {
				return h.refusal
			}
			h.patches++
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
	h.store = NewStore(Options{Client: h.client, FieldOwner: "test", Recorder: h.events, Clock: h.clock, Provider: openstack.Provider{}})
	return h
}

func (h *harness) read() *v1alpha1.Machine {
	h.t.Helper()
	m := &v1alpha1.Machine{}
	if err := h.client.Get(h.t.Context(), client.ObjectKey{Namespace: "ns", Name: "m"}, m); err != nil {
		h.t.Fatal(err)
	}
	return m
}

// open starts a reconcile of the Machine as it is stored.
func (h *harness) open() *Scope {
	h.t.Helper()
	s := h.store.Open(h.read())
	if s == nil {
		h.t.Fatal("Open() = nil for the stored Machine")
	}
	s.ReadMachine()
	return s
}

func TestFinishWritesOnlyUrgentChangesAtOnce(t *testing.T) {
	t.Run("keeps a change that is not urgent for another write (F-57)", func(t *testing.T) {
		h := newHarness(t)
		s := h.open()
		if err := s.Finish(t.Context()); err != nil || h.patches != 0 || s.RequeueAfter != 90*time.Second {
			t.Fatalf("error %v, %d writes, again after %v; want no write, and another look after 1m30s", err, h.patches, s.RequeueAfter)
		}
		h.clock.SetTime(h.clock.Now().Add(90 * time.Second))
		if err := h.open().Finish(t.Context()); err != nil || h.patches != 1 {
			t.Errorf("error %v, %d writes; want one after 1m30s", err, h.patches)
		}
	})
	t.Run("writes an urgent change at the end, and nothing when nothing differs", func(t *testing.T) {
		h := newHarness(t)
		s := h.open()
		s.Machine.Spec.ProviderID = ptr.To("openstack:///0a1b2c3d-0000-4000-8000-00000000abcd")
		for range 2 {
			if err := s.Finish(t.Context()); err != nil || h.patches != 1 {
				t.Fatalf("error %v, %d writes; want one", err, h.patches)
			}
		}
	})
	t.Run("writes ahead at once, and not when nothing differs", func(t *testing.T) {
		h := newHarness(t)
		s := h.open()
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil || h.patches != 0 {
			t.Fatalf("error %v, %d writes; want none", err, h.patches)
		}
		s.Machine.Status.Phase = ptr.To(v1alpha1.PhasePending)
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil || h.patches != 1 {
			t.Errorf("error %v, %d writes; want one", err, h.patches)
		}
	})
	t.Run("opens no scope for a Machine that the cache shows as it was before the last write", func(t *testing.T) {
		h := newHarness(t)
		before := h.read()
		s := h.open()
		s.Machine.Finalizers = []string{v1alpha1.FinalizerServer}
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil {
			t.Fatal(err)
		}
		if h.store.Open(before) != nil {
			t.Error("Open() returned a scope for the old Machine")
		}
	})
}

func TestWarnOnWriteRecordsTheEventOnce(t *testing.T) {
	h := newHarness(t)
	h.refusal = errors.New("refused")
	s := h.open()
	s.Machine.Finalizers = []string{v1alpha1.FinalizerServer}
	s.WarnOnWrite("DrainBlocked", "so")
	if err := s.WriteAhead(t.Context(), BeforeCreating); err == nil || len(h.events.Events) != 0 {
		t.Fatalf("error %v, %d Events; want none while the write fails", err, len(h.events.Events))
	}
	h.refusal = nil
	for range 2 {
		s.Machine.Finalizers = append(s.Machine.Finalizers, v1alpha1.FinalizerNode)
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil || len(h.events.Events) != 1 {
			t.Fatalf("error %v, %d Events; want one with the first write", err, len(h.events.Events))
		}
	}
}

func TestRequeueWithinKeepsTheEarliestTime(t *testing.T) {
	var s Scope
	for _, step := range []struct{ after, want time.Duration }{{0, 0}, {time.Minute, time.Minute}, {time.Hour, time.Minute}, {time.Second, time.Second}, {-1, time.Second}} {
		if s.RequeueWithin(step.after); s.RequeueAfter != step.want {
			t.Errorf("after %v: got %v, want %v", step.after, s.RequeueAfter, step.want)
		}
	}
}

func TestTheStoreForgetsMachinesThatAreGone(t *testing.T) {
	h := newHarness(t)
	gone := map[types.UID]bool{}
	h.store = NewStore(Options{Client: h.client, Clock: h.clock, Provider: openstack.Provider{}, Gone: func(uid types.UID) { gone[uid] = true }})
	const many = 10_000
	machine := func(name, uid string) *v1alpha1.Machine {
		return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	}
	t.Run("when they are gone without a deletion by drover, and calls Gone (F-12)", func(t *testing.T) {
		for n := range many {
			m := machine(fmt.Sprint(n), fmt.Sprint("uid-", n))
			h.store.Open(m)
			h.store.Forget(client.ObjectKeyFromObject(m))
		}
		if len(gone) != many || len(h.store.memory.machines) != 0 {
			t.Errorf("Gone was called for %d, %d are remembered; want all and none", len(gone), len(h.store.memory.machines))
		}
	})
	t.Run("when another Machine has the name (F-12)", func(t *testing.T) {
		clear(gone)
		h.store.Open(machine("m", "first"))
		h.store.Open(machine("m", "second"))
		if !gone["first"] || gone["second"] || len(h.store.memory.machines) != 1 {
			t.Errorf("Gone was called for %v, %d are remembered", gone, len(h.store.memory.machines))
		}
	})
}
