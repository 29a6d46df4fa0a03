package scope

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	openstack "github.com/drover-project/drover/machines/openstack/provider"
)

// harness holds a Store, and a client in memory with one Machine.
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
	h.store = NewStore(Options{Client: h.client, Recorder: h.events, Clock: h.clock, Provider: openstack.Provider{}})
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

// open starts a reconcile of the stored Machine.
func (h *harness) open() *Scope {
	h.t.Helper()
	s := h.store.Open(h.read())
	if s == nil {
		h.t.Fatal("Open() = nil for the stored Machine")
	}
	s.ReadMachine()
	return s
}

func TestAReconcileRequeuesItsMachineAfterTheShortestOfTheTimesThatItsStepsRequest(t *testing.T) {
	var s Scope
	for _, step := range []struct{ after, want time.Duration }{{0, 0}, {time.Minute, time.Minute}, {time.Hour, time.Minute}, {time.Second, time.Second}, {-1, time.Second}} {
		if s.RequeueWithin(step.after); s.RequeueAfter != step.want {
			t.Errorf("after %v: got %v, want %v", step.after, s.RequeueAfter, step.want)
		}
	}
}
