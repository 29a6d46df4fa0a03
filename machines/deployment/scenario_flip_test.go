package deployment_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube/memory"
)

// inFlip runs a scenario in virtual time, on a deployment of three available Machines. lag is the delay of the controllers' watch of
// MachineDeployments.
func inFlip(t *testing.T, lag time.Duration, scenario func(h *harness)) {
	late := func(resource string) time.Duration {
		return map[string]time.Duration{"machinedeployments": lag}[resource]
	}
	inFlipOver(t, late, func(next http.RoundTripper) http.RoundTripper { return next }, scenario)
}

// inFlipOver runs a scenario in virtual time, on a deployment of three available Machines. late returns by how much the controllers' watch
// of a resource is delayed. over wraps the HTTP transport of the controllers. more adds other controllers.
func inFlipOver(t *testing.T, late func(resource string) time.Duration, over func(http.RoundTripper) http.RoundTripper, scenario func(h *harness), more ...func(ctrl.Manager) error) {
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
		kube, err := memory.New(memory.Options{Catalog: catalog, Lag: func(_, resource string, _ time.Time) time.Duration {
			return late(resource)
		}})
		if err != nil {
			t.Fatal(err)
		}
		mgr, err := ctrl.NewManager(kube.ConfigOver(over(kube.RoundTripper("drover"))), ctrl.Options{
			Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
			Controller: config.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		direct, err := client.New(kube.Config("admin", "system:masters"), client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		h := &harness{t: t, client: direct, patience: time.Minute, actor: &actor{client: mgr.GetClient(), held: map[string]string{}}}
		stop := h.startFlip(mgr, more...)
		defer stop()
		d := group("flip", size(3))
		d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{RollingUpdate: &v1alpha1.MachineRollingUpdate{
			MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(1)),
		}}
		if err := direct.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		h.settled("flip", 3)
		time.Sleep(time.Minute)
		scenario(h)
	})
}

// startFlip runs the controllers, those that more adds, and the actor.
func (h *harness) startFlip(mgr ctrl.Manager, more ...func(ctrl.Manager) error) (stop func()) {
	h.deployments = deployment.New(deployment.Options{Control: mgr, Clock: clock.RealClock{}})
	var suffixes atomic.Int32 // the same in each run
	suffix := func() string { return rand.SafeEncodeString(fmt.Sprintf("%05d", suffixes.Add(1))) }
	for _, setup := range append([]func(ctrl.Manager) error{
		set.New(set.Options{Control: mgr, Clock: clock.RealClock{}, Suffix: suffix}).SetupWithManager,
		h.deployments.SetupWithManager,
		func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).For(&v1alpha1.Machine{}).Named("actor").Complete(h.actor)
		},
	}, more...) {
		if err := setup(mgr); err != nil {
			h.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	}
}

// template changes the kubelet version in the template of the deployment.
func (h *harness) template(kubelet string) {
	h.t.Helper()
	h.patch("flip", fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, kubelet))
}

// uids returns the UIDs of all Machines.
func (h *harness) uids() map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, m := range h.machines("flip") {
		all[m.UID] = true
	}
	return all
}

func TestATemplateThatIsChangedAndChangedBackKeepsItsMachines(t *testing.T) {
	for _, tt := range []struct {
		name      string
		lag, back time.Duration
	}{
		{"no Machine is replaced when the template is changed back within 200 ms (F-55)", 0, 150 * time.Millisecond},
		{"no Machine is replaced when the template is changed back before the watch shows the change (F-55)", time.Second, 500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inFlip(t, tt.lag, func(h *harness) {
				before := h.uids()
				h.template("1.37.2")
				time.Sleep(tt.back)
				h.template("1.37.1")
				for range 600 {
					time.Sleep(100 * time.Millisecond)
					if now := h.uids(); !maps.Equal(now, before) {
						h.t.Fatalf("Machines are %v, want %v", slices.Collect(maps.Keys(now)), slices.Collect(maps.Keys(before)))
					}
				}
				h.settled("flip", 3)
			})
		})
	}
	t.Run("Machines that are not yet replaced stay when the template is changed back, even when the watch is late (F-55)", func(t *testing.T) {
		inFlip(t, 3*time.Second, func(h *harness) {
			h.actor.hold("flip", creates)
			h.template("1.37.2")
			time.Sleep(30 * time.Second)
			former := h.ofKubelet("1.37.1")
			h.template("1.37.1")
			h.actor.letGo("flip")
			time.Sleep(time.Minute)
			for name := range former {
				if !h.ofKubelet("1.37.1")[name] {
					h.t.Errorf("Machine %s of the current template was deleted", name)
				}
			}
			h.settled("flip", 3)
		})
	})
}

// ofKubelet returns the names of the living Machines whose kubelet version is version.
func (h *harness) ofKubelet(version string) map[string]bool {
	all := h.machines("flip")
	return names(slices.DeleteFunc(all, func(m v1alpha1.Machine) bool {
		return m.Spec.Versions.Kubelet != version || !m.DeletionTimestamp.IsZero()
	}))
}

func TestAnAnnotationWithoutEffectIsReported(t *testing.T) {
	const other = "machineDeployment.clusters.k8s.io/revision"
	t.Run("the condition Warnings names an annotation that drover does not read, until the annotation is removed (F-55)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			h.patch("flip", fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, other))
			time.Sleep(time.Minute)
			c := meta.FindStatusCondition(h.get("flip").Status.Conditions, v1alpha1.ConditionWarnings)
			if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "annotation "+other+": has no effect") {
				h.t.Errorf("the condition is %+v", c)
			}
			h.patch("flip", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, other))
			time.Sleep(time.Minute)
			if c := meta.FindStatusCondition(h.get("flip").Status.Conditions, v1alpha1.ConditionWarnings); c != nil {
				h.t.Errorf("the condition remains: %+v", c)
			}
		})
	})
}

func TestTheLastOrderedSizeIsRestored(t *testing.T) {
	for name, ordered := range map[string]int32{"a larger": 5, "a smaller": 2} {
		t.Run(name+" size is restored when a client drops spec.replicas before drover has begun to carry the size out (F-5)", func(t *testing.T) {
			inFlip(t, 0, func(h *harness) {
				// While the deployment is paused, drover sees all versions of the deployment and carries out none.
				h.patch("flip", `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
				h.patch("flip", fmt.Sprintf(`{"spec":{"replicas":%d}}`, ordered))
				h.rewrite("flip", func(o *unstructured.Unstructured) {
					o.SetAnnotations(nil)
					unstructured.RemoveNestedField(o.Object, "spec", "replicas")
				})
				time.Sleep(time.Minute)
				if got := h.get("flip").Spec.Replicas; got == nil || *got != ordered {
					h.t.Errorf("the restored size is %v, want %d", ptr.Deref(got, -1), ordered)
				}
				h.settled("flip", ordered)
			})
		})
	}
}
