package capacity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kube/memory"
)

// catalog is a cloud that returns one machine shape, or an error, for every template.
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

// bench holds the capacity controller and its API server, which supports server-side apply.
type bench struct {
	t        *testing.T
	config   *rest.Config
	client   client.Client
	cloud    *catalog
	recorder *events.FakeRecorder
	clock    *clocktesting.FakePassiveClock
	r        *Reconciler
}

// newBench returns a bench with a real API server.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := newBenchAt(t, kube.ForTest(t, kube.Options{}).Config)
	if err := deploy.Apply(t.Context(), b.client, "crds"); err != nil {
		t.Fatal(err)
	}
	return b
}

// newBenchInMemory returns a bench with an API server in memory.
func newBenchInMemory(t *testing.T) *bench {
	t.Helper()
	crds, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(crds...)
	if err != nil {
		t.Fatal(err)
	}
	server, err := memory.New(memory.Options{Catalog: catalog})
	if err != nil {
		t.Fatal(err)
	}
	return newBenchAt(t, server.Config("drover"))
}

func newBenchAt(t *testing.T, config *rest.Config) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
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

// store creates the objects, with the owners and the status that they have in the list. The UIDs are those that the API server gives.
func (b *bench) store(objects []client.Object) {
	b.t.Helper()
	for i, o := range objects {
		if i > 0 && len(o.GetOwnerReferences()) > 0 {
			refs := o.GetOwnerReferences()
			refs[0].UID = objects[i-1].GetUID()
			o.SetOwnerReferences(refs)
		}
		status := o.DeepCopyObject().(client.Object)
		if err := b.client.Create(b.t.Context(), o); err != nil {
			b.t.Fatal(err)
		}
		if n, ok := o.(*corev1.Node); ok {
			n.Status = status.(*corev1.Node).Status
			if err := b.client.Status().Update(b.t.Context(), n); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// reconcile runs the controller once and returns the object as stored.
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
		b.t.Errorf("condition %+v, want %s %s with %q", c, status, reason, message)
	}
}

func TestReconcileWritesTheNodeTemplateIntoTheDeploymentsStatus(t *testing.T) {
	b := newBench(t)
	t.Run("writes the node template once when the deployment's flavor exists in the cloud", func(t *testing.T) {
		d := b.create("known")
		after, result := b.reconcile(d)
		b.condition(after, metav1.ConditionTrue, reasonResolved, "")
		if want := resolve(t, d, shape()); !apiequality.Semantic.DeepEqual(after.Status.NodeTemplate, want) {
			t.Errorf("node template %+v, want %+v", after.Status.NodeTemplate, want)
		}
		if result.RequeueAfter != resolveAgain {
			t.Errorf("resolved again after %s", result.RequeueAfter)
		}
		again, _ := b.reconcile(d)
		if again.ResourceVersion != after.ResourceVersion {
			t.Error("the unchanged template was written again")
		}
	})
	t.Run("reports an unknown flavor in a condition and in one Event, and writes no node template (CA-C98)", func(t *testing.T) {
		b.cloud.err = fault.New(fault.Invalid, fault.CodeFlavorNotFound, "spec.template.spec.providerSpec.value.cloudProviderSpec.flavor: no flavor %q", "m1.tyni")
		d := b.create("typo")
		after, _ := b.reconcile(d)
		b.reconcile(d)
		b.condition(after, metav1.ConditionFalse, "FlavorNotFound", "m1.tyni")
		if after.Status.NodeTemplate != nil {
			t.Errorf("node template %+v, want none", after.Status.NodeTemplate)
		}
		if got := <-b.recorder.Events; !strings.Contains(got, "FlavorNotFound") || !strings.Contains(got, "m1.tyni") || len(b.recorder.Events) != 0 {
			t.Errorf("Event %q, %d more follow", got, len(b.recorder.Events))
		}
	})
	t.Run("tries again after 30 s when the cloud has no such flavor, and after 5 min when the spec itself is invalid (F-49)", func(t *testing.T) {
		for code, want := range map[fault.Code]time.Duration{fault.CodeFlavorNotFound: 30 * time.Second, fault.CodeInvalidSpec: 5 * time.Minute} {
			b.cloud.err = fault.New(fault.Invalid, code, "no")
			_, result := b.reconcile(b.create("again-" + strings.ToLower(string(code))))
			if result.RequeueAfter != want {
				t.Errorf("%s: resolved again after %v, want %v", code, result.RequeueAfter, want)
			}
			<-b.recorder.Events
		}
	})
	t.Run("removes the node template while the image does not exist, and restores it afterwards (CA-C103)", func(t *testing.T) {
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
	t.Run("keeps the last node template while the cloud cannot be reached", func(t *testing.T) {
		b.cloud.err = nil
		d := b.create("away")
		b.reconcile(d)
		b.cloud.err = fault.New(fault.Transient, fault.CodeCloudUnavailable, "503")
		after, result := b.reconcile(d)
		b.condition(after, metav1.ConditionFalse, "CloudUnavailable", "503")
		if after.Status.NodeTemplate == nil || result.RequeueAfter != askAgain {
			t.Errorf("node template %v, resolved again after %s", after.Status.NodeTemplate, result.RequeueAfter)
		}
	})
	t.Run("keeps the conditions that other controllers wrote into the status", func(t *testing.T) {
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
	t.Run("writes no node template for a paused deployment, and does not call the cloud", func(t *testing.T) {
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
	t.Run("returns no error for a deployment that does not exist", func(t *testing.T) {
		if _, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "x", Name: "y"}}); err != nil {
			t.Error(err)
		}
	})
}

func TestADeploymentThatIsCreatedWhileTheManagerRunsGetsANodeTemplate(t *testing.T) {
	b := newBenchInMemory(t)
	mgr, err := ctrl.NewManager(b.config, manager.Options{
		Scheme: b.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Control: mgr, Target: mgr, Cloud: b.cloud}).SetupWithManager(mgr); err != nil {
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

func TestTheNodeTemplateIsKeptDuringACloudOutageUnlessTheMachineTemplateChanges(t *testing.T) {
	away := fault.New(fault.Transient, fault.CodeCloudUnavailable, "the cloud does not answer")
	s := ofDeployment(deployment())
	known, err := rules.template(s, shape(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.known = known.NodeTemplate
	if v := judge(s, resolved{}, away); v.template != s.known {
		t.Error("the template for the same Machine template is gone")
	}
	t.Run("the node template is removed when the Machine template changes during the outage (CA-C103)", func(t *testing.T) {
		s.template.Spec.Versions.Kubelet = "1.36.2"
		if v := judge(s, resolved{}, away); v.template != nil || v.condition.Status != metav1.ConditionFalse {
			t.Errorf("judge() = %+v", v)
		}
	})
}

func TestAGroupWhoseTemplateHasNoZoneSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		zone string
		said bool
	}{
		"a group whose zone is not known says that pods which need a zone do not make it grow (F-127)": {"", true},
		"a group with a zone says nothing about zones (F-127)":                                         {"dbl1", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, in := ofDeployment(deployment()), shape()
			in.Zone = c.zone
			got, err := rules.template(s, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v := judge(s, got, nil); strings.Contains(v.condition.Message, "has no zone") != c.said || v.condition.Status != metav1.ConditionTrue || v.warning != "" {
				t.Errorf("judge() = %+v", v)
			}
		})
	}
}

func TestTheNodeTemplateForTheAutoscalerIsAlsoComputedForABareSet(t *testing.T) {
	s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bare"}}
	s.Spec.Template = deployment().Spec.Template
	got, err := rules.template(ofSet(s), cloud.Shape{Flavor: "m1.small", CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi")}, nil)
	if err != nil || got.Labels[corev1.LabelInstanceTypeStable] != "m1.small" {
		t.Errorf("the template is %+v, error %v", got, err)
	}
}
