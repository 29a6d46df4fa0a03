package capacity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/test/kube"
)

// catalog is a cloud that knows one shape, or fails.
type catalog struct {
	cloud.Cloud
	shape cloud.Shape
	err   error
	calls int
}

func (c *catalog) Shape(context.Context, string, *v1alpha1.MachineTemplateSpec) (cloud.Shape, error) {
	c.calls++
	return c.shape, c.err
}

// bench is the controller on a real API server: what it writes is merged there, with what others write.
type bench struct {
	t        *testing.T
	config   *rest.Config
	client   client.Client
	cloud    *catalog
	recorder *events.FakeRecorder
	clock    *clocktesting.FakePassiveClock
	r        *Reconciler
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	config := kube.ForTest(t, kube.Options{}).Config
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), c, "crds"); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, config: config, client: c, cloud: &catalog{shape: shape()}, recorder: events.NewFakeRecorder(100),
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	b.r = newReconciler(Options{Cloud: b.cloud, Clock: b.clock}, c, b.recorder)
	return b
}

func (b *bench) create(name string) *v1alpha1.MachineDeployment {
	b.t.Helper()
	d := deployment()
	d.ObjectMeta = metav1.ObjectMeta{Namespace: "kube-system", Name: name}
	if err := b.client.Create(b.t.Context(), d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

// reconcile runs the controller once and gives what the API server has then.
func (b *bench) reconcile(d *v1alpha1.MachineDeployment) (*v1alpha1.MachineDeployment, ctrl.Result) {
	b.t.Helper()
	key := client.ObjectKeyFromObject(d)
	result, err := b.r.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		b.t.Fatal(err)
	}
	after := &v1alpha1.MachineDeployment{}
	if err := b.client.Get(b.t.Context(), key, after); err != nil {
		b.t.Fatal(err)
	}
	return after, result
}

func (b *bench) condition(d *v1alpha1.MachineDeployment, status metav1.ConditionStatus, reason, message string) {
	b.t.Helper()
	c := apimeta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionTemplateResolved)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		b.t.Errorf("the condition is %+v, want %s %s with %q", c, status, reason, message)
	}
}

func TestTheTemplateInStatus(t *testing.T) {
	b := newBench(t)
	t.Run("a template that the cloud knows is written once", func(t *testing.T) {
		d := b.create("known")
		after, result := b.reconcile(d)
		b.condition(after, metav1.ConditionTrue, reasonResolved, "")
		if want := resolve(t, d, shape()); !apiequality.Semantic.DeepEqual(after.Status.NodeTemplate, want) {
			t.Errorf("the node template is %+v, want %+v", after.Status.NodeTemplate, want)
		}
		if result.RequeueAfter != resolveAgain {
			t.Errorf("it is looked at again after %s", result.RequeueAfter)
		}
		again, _ := b.reconcile(d)
		if again.ResourceVersion != after.ResourceVersion {
			t.Error("nothing has changed and it was written again")
		}
	})
	t.Run("CA-C98 an unknown flavor: condition, one Event that names it, and no template", func(t *testing.T) {
		b.cloud.err = fault.New(fault.Invalid, fault.CodeFlavorNotFound, "spec.template.spec.providerSpec.value.cloudProviderSpec.flavor: no flavor %q", "m1.tyni")
		d := b.create("typo")
		after, _ := b.reconcile(d)
		b.reconcile(d)
		b.condition(after, metav1.ConditionFalse, "FlavorNotFound", "m1.tyni")
		if after.Status.NodeTemplate != nil {
			t.Errorf("the node template is %+v", after.Status.NodeTemplate)
		}
		if got := <-b.recorder.Events; !strings.Contains(got, "FlavorNotFound") || !strings.Contains(got, "m1.tyni") || len(b.recorder.Events) != 0 {
			t.Errorf("the event is %q, %d more follow", got, len(b.recorder.Events))
		}
	})
	t.Run("an unknown name is looked up again after 30 s, another fault of the spec after 5 min (F-49)", func(t *testing.T) {
		for code, want := range map[fault.Code]time.Duration{fault.CodeFlavorNotFound: 30 * time.Second, fault.CodeInvalidSpec: 5 * time.Minute} {
			b.cloud.err = fault.New(fault.Invalid, code, "no")
			_, result := b.reconcile(b.create("again-" + strings.ToLower(string(code))))
			if result.RequeueAfter != want {
				t.Errorf("%s: looked at again after %v, want %v", code, result.RequeueAfter, want)
			}
			<-b.recorder.Events
		}
	})
	t.Run("CA-C103 a template that has become wrong is taken away, and comes back", func(t *testing.T) {
		b.cloud.err = nil
		d := b.create("becomes-wrong")
		b.reconcile(d)
		b.cloud.err = fault.New(fault.Invalid, fault.CodeImageNotFound, "no image x")
		after, _ := b.reconcile(d)
		b.condition(after, metav1.ConditionFalse, "ImageNotFound", "no image x")
		if after.Status.NodeTemplate != nil {
			t.Errorf("the node template is %+v", after.Status.NodeTemplate)
		}
		b.cloud.err = nil
		after, _ = b.reconcile(d)
		b.condition(after, metav1.ConditionTrue, reasonResolved, "")
		if after.Status.NodeTemplate == nil {
			t.Error("there is no node template")
		}
	})
	t.Run("a cloud that cannot be asked leaves the last answer", func(t *testing.T) {
		b.cloud.err = nil
		d := b.create("away")
		b.reconcile(d)
		b.cloud.err = fault.New(fault.Transient, fault.CodeCloudUnavailable, "503")
		after, result := b.reconcile(d)
		b.condition(after, metav1.ConditionFalse, "CloudUnavailable", "503")
		if after.Status.NodeTemplate == nil || result.RequeueAfter != askAgain {
			t.Errorf("the node template is %v, asked again after %s", after.Status.NodeTemplate, result.RequeueAfter)
		}
	})
	t.Run("other writers' conditions stay", func(t *testing.T) {
		b.cloud.err = nil
		d := b.create("shared")
		d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "x", LastTransitionTime: metav1.NewTime(b.clock.Now())}}
		if err := b.client.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		after, _ := b.reconcile(d)
		if len(after.Status.Conditions) != 2 {
			t.Errorf("the conditions are %+v", after.Status.Conditions)
		}
	})
	t.Run("a paused deployment is left alone", func(t *testing.T) {
		d := b.create("paused")
		d.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		if err := b.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		before := b.cloud.calls
		if after, _ := b.reconcile(d); after.Status.NodeTemplate != nil || b.cloud.calls != before {
			t.Errorf("the node template is %+v after %d calls", after.Status.NodeTemplate, b.cloud.calls-before)
		}
	})
	t.Run("one that is gone is no error", func(t *testing.T) {
		if _, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "x", Name: "y"}}); err != nil {
			t.Error(err)
		}
	})
}

func TestInAManager(t *testing.T) {
	b := newBench(t)
	mgr, err := ctrl.NewManager(b.config, manager.Options{Scheme: b.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Control: mgr, Cloud: b.cloud}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	d := b.create("managed")
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		err := b.client.Get(ctx, client.ObjectKeyFromObject(d), d)
		return err == nil && d.Status.NodeTemplate != nil, err
	})
	if err != nil {
		t.Fatalf("waiting for the node template: %v", err)
	}
	b.condition(d, metav1.ConditionTrue, reasonResolved, "")
}
