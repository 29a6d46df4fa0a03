package set_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube/memory"
)

// lateBy is the delay of the new leader's watch.
const lateBy = 5 * time.Second

// lead is a lease that is fresh once a test sets it to true.
type lead struct{ atomic.Bool }

func (l *lead) Fresh(time.Time) bool { return l.Load() }

// handover is a set of three Machines, and a new leader that already watches the cluster but does not lead yet. At most one watch of the
// new leader delivers its events late.
type handover struct {
	*testing.T
	admin client.Client
	lead  lead
}

// inHandover runs a scenario in virtual time. late is the plural name of the resource whose watch is late.
func inHandover(t *testing.T, late string, scenario func(h *handover)) {
	scheme := kinds(t)
	crds, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(crds...)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		kube, err := memory.New(memory.Options{Catalog: catalog, Lag: func(user, resource string, _ time.Time) time.Duration {
			if user == "successor" && resource == late {
				return lateBy
			}
			return 0
		}})
		h := &handover{T: t}
		h.must(err)
		h.admin, err = client.New(kube.Config("admin", "system:masters"), client.Options{Scheme: scheme})
		h.must(err)
		h.fill()
		stop := h.start(kube, scheme)
		defer stop()
		scenario(h)
	})
}

func (h *handover) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// fill creates the set and its Machines, as the previous leader left them.
func (h *handover) fill() {
	s := newSet("handed", 3)
	s.Finalizers = []string{metav1.FinalizerDeleteDependents}
	h.must(h.admin.Create(h.Context(), s))
	for _, name := range []string{"a", "b", "c"} {
		h.add(name)
	}
}

// add creates a Machine of the set.
func (h *handover) add(name string) {
	h.Helper()
	s := get(h, h.admin, "handed")
	h.must(h.admin.Create(h.Context(), &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.Namespace, Labels: s.Labels, Finalizers: []string{v1alpha1.FinalizerServer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, v1alpha1.MachineSetKind)},
		},
		Spec: s.Spec.Template.Spec,
	}))
}

// start runs the new leader. Its caches are filled when start returns.
func (h *handover) start(kube *memory.Server, scheme *runtime.Scheme) (stop func()) {
	mgr, err := ctrl.NewManager(kube.Config("successor"), ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	h.must(err)
	h.must(set.New(set.Options{
		Control: mgr, Clock: clock.RealClock{}, Suffix: suffixes(), Lease: &h.lead,
	}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	time.Sleep(time.Minute)
	return func() {
		cancel()
		h.must(<-ended)
	}
}

// suffixes returns a source of suffixes that are the same in each run.
func suffixes() func() string {
	var n atomic.Int64
	return func() string { return rand.SafeEncodeString(fmt.Sprintf("%05d", n.Add(1))) }
}

// write sets the size of the set, as the deployment controller does.
func (h *handover) write(replicas int) {
	h.Helper()
	patch(h, h.admin, "handed", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// living returns the names of the set's living Machines, sorted.
func (h *handover) living() (names []string) {
	h.Helper()
	for _, m := range machinesOf(h, h.admin, "handed") {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// replaceOne makes the new leader lead, and makes it replace Machine a. From then on the leader's expectations cover the set's
// Machines.
func (h *handover) replaceOne() {
	h.Helper()
	h.lead.Store(true)
	h.must(h.admin.Delete(h.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}))
	time.Sleep(time.Minute)
	if n := len(h.living()); n != 3 {
		h.Fatalf("%d Machines live, want 3", n)
	}
}

// stay fails the test unless exactly the Machines in want are living one minute after the new leader has started to lead.
func (h *handover) stay(want ...string) {
	h.Helper()
	h.lead.Store(true)
	time.Sleep(time.Minute)
	if living := h.living(); !slices.Equal(living, want) {
		h.Errorf("living Machines %v, want %v", living, want)
	}
}

func TestANewLeaderWhoseWatchIsLateActsOnTheCurrentObjects(t *testing.T) {
	t.Run("deletes no further Machine after the previous leader's scale-down, although the late watch still shows the deleted one (F-55)", func(t *testing.T) {
		inHandover(t, "machines", func(h *handover) {
			marked := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"}}
			mark := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationDeleteMachine)
			h.must(h.admin.Patch(h.Context(), marked, client.RawPatch(types.MergePatchType, mark)))
			h.write(2)
			h.must(h.admin.Delete(h.Context(), marked))
			h.stay("a", "c")
		})
	})
	t.Run("creates no Machine for a set that is being deleted, even while the late watch does not show the deletion", func(t *testing.T) {
		inHandover(t, "machinesets", func(h *handover) {
			h.replaceOne()
			h.must(h.admin.Delete(h.Context(), get(h, h.admin, "handed")))
			time.Sleep(time.Minute)
			var all v1alpha1.MachineList
			h.must(h.admin.List(h.Context(), &all))
			if len(all.Items) != 4 {
				h.Errorf("%d Machines exist, want 4", len(all.Items))
			}
		})
	})
	t.Run("deletes no Machine of a set whose size was lowered and raised again while the late watch still shows the lower size", func(t *testing.T) {
		inHandover(t, "machinesets", func(h *handover) {
			h.replaceOne()
			before := h.living()
			h.write(2)
			time.Sleep(time.Second)
			h.write(3)
			h.stay(before...)
		})
	})
	t.Run("keeps the Machine that the previous leader created, although the late watch still shows the old, lower size of the set (F-55)", func(t *testing.T) {
		inHandover(t, "machinesets", func(h *handover) {
			h.write(4)
			h.add("d")
			h.stay("a", "b", "c", "d")
		})
	})
}
