package freeze_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/freeze"
	"github.com/drover-project/drover/test/kube/memory"
)

// bubble is an API server in memory, in virtual time, with the freeze controller. The test itself creates sets and Machines.
type bubble struct {
	*testing.T
	admin   client.Client
	metrics *prometheus.Registry
	// reads and writes count the controller's calls to the API server, without watches.
	reads, writes atomic.Int64
}

// counting counts the requests that it forwards.
type counting struct {
	next http.RoundTripper
	b    *bubble
}

// RoundTrip forwards a request.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Method != http.MethodGet:
		c.b.writes.Add(1)
	case r.URL.Query().Get("watch") == "":
		c.b.reads.Add(1)
	}
	return c.next.RoundTrip(r)
}

// inBubble runs a scenario. late is the plural name of a resource whose events reach the controller 5 s late; empty means
// that no events are late.
func inBubble(t *testing.T, late string, limits freeze.Limits, fill, scenario func(b *bubble)) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	crds, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(crds...)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, metrics: prometheus.NewRegistry()}
		kube, err := memory.New(memory.Options{Catalog: catalog, Lag: func(user, resource string, _ time.Time) time.Duration {
			if user == "drover" && resource == late {
				return 5 * time.Second
			}
			return 0
		}})
		b.must(err)
		b.admin, err = client.New(kube.Config("admin", "system:masters"), client.Options{Scheme: scheme})
		b.must(err)
		fill(b)
		mgr, err := ctrl.NewManager(kube.ConfigOver(counting{kube.RoundTripper("drover"), b}), ctrl.Options{
			Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
			Controller: config.Controller{SkipNameValidation: new(true)},
		})
		b.must(err)
		freezes, err := freeze.New(freeze.Options{Control: mgr, Clock: clock.RealClock{}, Limits: limits, Registry: b.metrics})
		b.must(err)
		b.must(freezes.SetupWithManager(mgr))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(10 * time.Second)
		scenario(b)
	})
}

func (b *bubble) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// add creates a deployment, a set of that deployment, and Machines of that set, with the fields that their controllers would have
// set.
func (b *bubble) add(name string, replicas int32, machines int) {
	b.Helper()
	d := group(name, replicas)
	b.must(b.admin.Create(b.Context(), d))
	b.addSet(d, name+"-1", replicas)
	b.addTo(name+"-1", 0, machines)
}

// addSet creates a set of the deployment d, or a set without a deployment when d is nil.
func (b *bubble) addSet(d *v1alpha1.MachineDeployment, name string, replicas int32) {
	b.Helper()
	labels := map[string]string{"group": name}
	s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if d != nil {
		labels = d.Spec.Template.Metadata.Labels
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)}
	}
	s.Labels, s.Spec.Selector.MatchLabels, s.Spec.Template.Metadata.Labels = labels, labels, labels
	s.Spec.Template.Spec = group(name, 1).Spec.Template.Spec
	s.Spec.Replicas = &replicas
	b.must(b.admin.Create(b.Context(), s))
}

// addTo creates Machines of a set. Their names end in the numbers from from to to-1.
func (b *bubble) addTo(set string, from, to int) {
	b.Helper()
	s := &v1alpha1.MachineSet{}
	b.must(b.admin.Get(b.Context(), key(set), s))
	for i := from; i < to; i++ {
		b.must(b.admin.Create(b.Context(), &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-m%d", set, i), Namespace: "default", Labels: s.Spec.Template.Metadata.Labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, v1alpha1.MachineSetKind)},
			},
			Spec: s.Spec.Template.Spec,
		}))
	}
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

func (b *bubble) scale(name string, replicas int32) {
	b.Helper()
	b.must(b.admin.Patch(b.Context(), group(name, 0), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))))
}

// marks describes the freeze of the deployment with the given name and of its first set.
func (b *bubble) marks(name string) string {
	b.Helper()
	d, s := &v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}
	b.must(b.admin.Get(b.Context(), key(name), d))
	b.must(b.admin.Get(b.Context(), key(name+"-1"), s))
	return marked(d, d.Status.Conditions) + "|" + marked(s, s.Status.Conditions)
}

func (b *bubble) expect(name, want string) {
	b.Helper()
	if got := b.marks(name); got != want+"|"+want {
		b.Errorf("the freeze state of %s and its set is %q, want %q", name, got, want)
	}
}

var defaults = freeze.Limits{Up: 2, Down: 1, Period: time.Minute}

func TestTheFreezeControllerMakesNoCallsInAHealthyCluster(t *testing.T) {
	t.Run("the controller makes no read and no write in an hour with 20 groups, one of which grows and shrinks (MCM-70)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) {
			for i := range 20 {
				b.add(fmt.Sprint("g", i), 3, 3)
			}
		}, func(b *bubble) {
			reads := b.reads.Load()
			for n := range 10 {
				b.scale("g0", int32(4+n))
				b.addTo("g0-1", 3+n, 4+n)
				time.Sleep(5 * time.Minute)
			}
			b.scale("g0", 3)
			time.Sleep(20 * time.Second)
			for n := 3; n < 13; n++ {
				b.must(b.admin.Delete(b.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("g0-1-m", n)}}))
			}
			time.Sleep(10 * time.Minute)
			if got, wrote := b.reads.Load()-reads, b.writes.Load(); got != 0 || wrote != 0 {
				b.Errorf("%d reads and %d writes", got, wrote)
			}
			b.expect("g0", "")
		})
	})
}

func TestTheFreezeOfAGroupWithTooManyMachines(t *testing.T) {
	t.Run("the group is frozen 1 s after it gets too many Machines, and no longer frozen 1 s after one of them is deleted (MCM-70, MCM-71)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) { b.add("g", 3, 3) }, func(b *bubble) {
			b.addTo("g-1", 3, 6)
			time.Sleep(time.Second)
			b.expect("g", overshoot)
			b.must(b.admin.Delete(b.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g-1-m5"}}))
			time.Sleep(time.Second)
			b.expect("g", free)
		})
	})
	t.Run("the group is frozen until its size is raised above its number of Machines (MCM-71)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) { b.add("g", 3, 6) }, func(b *bubble) {
			b.expect("g", overshoot)
			b.scale("g", 10)
			time.Sleep(time.Second)
			b.expect("g", free)
		})
	})
	t.Run("the group stays frozen under a new leader when the previous leader froze it (MCM-78)", func(t *testing.T) {
		inBubble(t, "", freeze.Limits{Up: 2, Down: 2, Period: time.Minute}, func(b *bubble) {
			b.add("g", 3, 5)
			d := &v1alpha1.MachineDeployment{}
			b.must(b.admin.Get(b.Context(), key("g"), d))
			d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: "True", Reason: freeze.ReasonOvershoot, LastTransitionTime: metav1.Now()}}
			b.must(b.admin.Status().Update(b.Context(), d))
		}, func(b *bubble) { b.expect("g", overshoot) })
	})
	t.Run("a set that is created while its group is frozen is frozen too (MCM-78)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) { b.add("g", 3, 6) }, func(b *bubble) {
			d := &v1alpha1.MachineDeployment{}
			b.must(b.admin.Get(b.Context(), key("g"), d))
			b.addSet(d, "g-2", 3)
			time.Sleep(time.Second)
			s := &v1alpha1.MachineSet{}
			b.must(b.admin.Get(b.Context(), key("g-2"), s))
			if got := marked(s, s.Status.Conditions); got != overshoot {
				b.Errorf("its marks are %q", got)
			}
		})
	})
	t.Run("the group is frozen when two sets together have too many Machines (MCM-74)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) { b.add("g", 5, 4) }, func(b *bubble) {
			d := &v1alpha1.MachineDeployment{}
			b.must(b.admin.Get(b.Context(), key("g"), d))
			b.addSet(d, "g-2", 4)
			b.addTo("g-2", 0, 4)
			time.Sleep(time.Second)
			b.expect("g", overshoot)
		})
	})
	t.Run("a frozen group is unfrozen when drover starts with --machine-safety-overshooting-period=0, which switches freezes off (MCM-70)", func(t *testing.T) {
		inBubble(t, "", freeze.Limits{Up: 2, Down: 1}, func(b *bubble) {
			b.add("g", 3, 60)
			d := &v1alpha1.MachineDeployment{}
			b.must(b.admin.Get(b.Context(), key("g"), d))
			d.Labels = map[string]string{v1alpha1.LabelFreeze: v1alpha1.Frozen}
			b.must(b.admin.Update(b.Context(), d))
			d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: "True", Reason: freeze.ReasonOvershoot, LastTransitionTime: metav1.Now()}}
			b.must(b.admin.Status().Update(b.Context(), d))
		}, func(b *bubble) {
			d := &v1alpha1.MachineDeployment{}
			b.must(b.admin.Get(b.Context(), key("g"), d))
			if got := marked(d, d.Status.Conditions); got != " False "+freeze.ReasonOff {
				b.Errorf("its marks are %q", got)
			}
		})
	})
	t.Run("a bare set is frozen, and its metrics are gone after its deletion (MCM-72)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) {
			b.addSet(nil, "bare", 2)
			b.addTo("bare", 0, 6)
		}, func(b *bubble) {
			s := &v1alpha1.MachineSet{}
			b.must(b.admin.Get(b.Context(), key("bare"), s))
			if got := marked(s, s.Status.Conditions); got != overshoot {
				b.Errorf("its marks are %q", got)
			}
			b.must(b.admin.Delete(b.Context(), s))
			time.Sleep(time.Second)
			if families, err := b.metrics.Gather(); err != nil || len(families) != 0 {
				b.Errorf("the metrics of a set that is gone: %v, %v (F-12)", families, err)
			}
		})
	})
}

func TestALateWatchNeitherStartsNorEndsAFreeze(t *testing.T) {
	for _, late := range []string{"machinedeployments", "machinesets"} {
		t.Run("live reads prevent a freeze while the informer cache of "+late+" is out of date (MCM-70)", func(t *testing.T) {
			inBubble(t, late, defaults, func(b *bubble) { b.add("g", 3, 3) }, func(b *bubble) {
				b.scale("g", 30)
				b.addTo("g-1", 3, 30)
				for range 100 {
					time.Sleep(200 * time.Millisecond)
					if got := b.marks("g"); got != "|" {
						b.Fatalf("the marks are %q", got)
					}
				}
				if b.writes.Load() != 0 {
					b.Errorf("%d writes", b.writes.Load())
				}
			})
		})
	}
	t.Run("live reads prevent the end of a freeze while the informer cache of Machines is out of date (MCM-71)", func(t *testing.T) {
		inBubble(t, "machines", defaults, func(b *bubble) { b.add("g", 3, 8) }, func(b *bubble) {
			b.expect("g", overshoot)
			// The watch of Machines is late: it shows first these deletions, and only later the new Machines that replace them.
			for n := range 5 {
				b.must(b.admin.Delete(b.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("g-1-m", n)}}))
			}
			time.Sleep(4 * time.Second)
			b.addTo("g-1", 8, 13)
			time.Sleep(3 * time.Second)
			b.expect("g", overshoot)
		})
	})
}

func TestAGroupOfUnknownSizeDelaysNoFreezeOfAnotherGroup(t *testing.T) {
	t.Run("a group of unknown size is not frozen, and another group with too many Machines is frozen at once (MCM-75)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) {
			b.add("ok", 3, 3)
			b.add("odd", 3, 3)
			d := &v1alpha1.MachineDeployment{}
			b.must(b.admin.Get(b.Context(), key("odd"), d))
			d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate}
			d.Spec.Replicas = nil
			b.must(b.admin.Update(b.Context(), d))
		}, func(b *bubble) {
			b.addTo("odd-1", 3, 20)
			b.addTo("ok-1", 3, 20)
			time.Sleep(time.Second)
			b.expect("ok", overshoot)
			b.expect("odd", "")
		})
	})
}

func TestAFreezeRecordsOneEventPerObject(t *testing.T) {
	t.Run("a freeze records one Event for the deployment and one for its set, however long it lasts (MCM-70)", func(t *testing.T) {
		inBubble(t, "", defaults, func(b *bubble) { b.add("g", 3, 6) }, func(b *bubble) {
			time.Sleep(time.Hour)
			d := &v1alpha1.MachineDeployment{}
			b.must(b.admin.Get(b.Context(), key("g"), d))
			c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionFrozen)
			if c == nil || !strings.Contains(c.Message, "6 living Machines") {
				b.Errorf("the condition is %+v", c)
			}
			// For each of the two objects, drover writes the condition, the label and an Event.
			if n := b.writes.Load(); n != 6 {
				b.Errorf("%d writes, want 6", n)
			}
		})
	})
}
