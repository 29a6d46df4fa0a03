package machine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/kube"
)

// pool is a node group on a real API server with the controllers of node groups, deployments and sets. The test runs the
// Machine controller itself, with a clock of its own.
type pool struct {
	t       *testing.T
	client  client.Client
	groups  *nodegroup.Groups
	cloud   *fakeCloud
	clock   *clocktesting.FakeClock
	options machine.Options
	machine *machine.Reconciler
	names   map[string]bool
}

const poolID = "MachineDeployment/kube-system/pool"

func newPool(t *testing.T) *pool {
	t.Helper()
	control := kube.ForTest(t, kube.Options{})
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	c, err := client.New(control.Config, client.Options{Scheme: scheme})
	must(t, err)
	must(t, deploy.Apply(t.Context(), c, "crds"))
	mgr, err := ctrl.NewManager(control.Config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}})
	must(t, err)
	p := &pool{t: t, client: c, cloud: newFakeCloud(), clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)), names: map[string]bool{}}
	p.groups = nodegroup.New(nodegroup.Options{Control: mgr, Target: mgr, Discovery: model.Discovery{Cloud: provider.Provider{}}})
	source := bootstrap.New(bootstrap.Options{Control: mgr, Target: mgr, Clock: p.clock, APIServer: "https://127.0.0.1:1", ClusterDNS: []string{"10.96.0.10"}})
	p.options = machine.Options{Control: mgr, Target: mgr, Cloud: p.cloud, Bootstrap: source, Clock: p.clock}
	p.machine = machine.New(p.options)
	for _, i := range scope.Indexes(p.cloud) {
		must(t, mgr.GetFieldIndexer().IndexField(t.Context(), i.Object, i.Field, i.Keys))
	}
	must(t, errors.Join(
		mgr.Add(p.groups),
		set.New(set.Options{Control: mgr, Clock: clock.RealClock{}, Suffix: func() string { return utilrand.String(5) }}).SetupWithManager(mgr),
		deployment.New(deployment.Options{Control: mgr, Target: mgr, Clock: clock.RealClock{}}).SetupWithManager(mgr),
	))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	<-p.groups.Synced()
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create creates the group. size is the group's size, minimum and maximum.
func (p *pool) create(size string) {
	p.t.Helper()
	p.createBetween(size, size)
}

// createBetween creates the group with the given minimum, which is also its size, and the given maximum.
func (p *pool) createBetween(least, most string) {
	p.t.Helper()
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool"}}
	d.Annotations = map[string]string{v1alpha1.AnnotationsMinSize[0]: least, v1alpha1.AnnotationsMaxSize[0]: most}
	d.Spec.Selector.MatchLabels = map[string]string{"pool": "pool"}
	d.Spec.Template.Metadata.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	must(p.t, p.client.Create(p.t.Context(), d))
	p.await("the group is listed", func() bool { return p.groups.Refresh(p.t.Context()) == nil && len(p.groups.List()) == 1 })
}

func (p *pool) await(what string, ok func() bool) {
	p.t.Helper()
	err := wait.PollUntilContextTimeout(p.t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		p.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// machines returns all Machines, and remembers the name of every Machine that ever existed.
func (p *pool) machines() []v1alpha1.Machine {
	p.t.Helper()
	var list v1alpha1.MachineList
	must(p.t, p.client.List(p.t.Context(), &list))
	for i := range list.Items {
		p.names[list.Items[i].Name] = true
	}
	return list.Items
}

// pass reconciles every Machine once, and waits until the caches show the changes.
func (p *pool) pass() {
	p.t.Helper()
	for _, m := range p.machines() {
		p.await("the reconciles meet no conflict", func() bool {
			result, err := p.machine.Reconcile(p.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&m)})
			must(p.t, err)
			return result.RequeueAfter != 200*time.Millisecond
		})
	}
}

// torment makes every call with which an autoscaler may react to the state of the group. It returns the number of instances with an
// error.
func (p *pool) torment() (shown int) {
	p.t.Helper()
	ctx := p.t.Context()
	must(p.t, p.groups.Refresh(ctx))
	list, err := p.groups.Instances(poolID)
	must(p.t, err)
	for _, i := range list {
		if i.Error == nil {
			continue
		}
		shown++
		// At the minimum size the call is accepted and changes nothing.
		must(p.t, p.groups.DeleteNodes(ctx, poolID, []membership.Node{{Name: i.ID, ProviderID: i.ID, Annotations: map[string]string{"k8s.io/cluster-autoscaler/fake-node-reason": "create-error"}}}))
	}
	must(p.t, p.groups.DecreaseTargetSize(ctx, poolID, -1))
	_ = p.groups.IncreaseSize(ctx, poolID, 1) // refused, because it exceeds the maximum
	return shown
}

func TestAQuotaErrorOfAGroupAtItsMinimumCausesOneAttemptPerBackOff(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	p.cloud.full = fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for cores: 20 of 20")
	p.create("3")
	p.await("the Machines exist", func() bool { return len(p.machines()) == 3 })
	p.pass()

	inOrder(t, "drover tries to create a server for one Machine, and all Machines show the error at once (CA-C46, CA-C48, CAPI-10, CAPI-22)", func(t *testing.T) {
		p.await("all show it", func() bool {
			list, err := p.groups.Instances(poolID)
			return err == nil && len(list) == 3 && !slices.ContainsFunc(list, func(i model.Instance) bool {
				return i.Error == nil || i.Error.Code != "QuotaExceeded" || !i.Error.OutOfResources
			})
		})
		if n := p.cloud.count("Prepare"); n != 1 {
			t.Errorf("%d Machines created ports", n)
		}
	})
	inOrder(t, "in an hour, the autoscaler's calls to resize the group cause neither an extra attempt nor a new Machine (CA-C69)", func(t *testing.T) {
		for minute := range 60 {
			p.clock.SetTime(p.clock.Now().Add(time.Minute))
			p.pass()
			if minute%5 == 0 {
				p.torment()
			}
		}
		// The back-offs last 30 s, 1, 2 and 4 min, and then 5 min each, and the test reconciles once a minute. So there are 12 to 15
		// attempts in an hour.
		if n := p.cloud.count("EnsureServer"); n < 12 || n > 15 {
			t.Errorf("%d attempts", n)
		}
		if p.machines(); len(p.names) != 3 {
			t.Errorf("there were %d Machines: %v", len(p.names), p.names)
		}
	})
	inOrder(t, "a new process continues the back-off from the group's status", func(t *testing.T) {
		d := &v1alpha1.MachineDeployment{}
		must(t, p.client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "pool"}, d))
		if len(d.Status.Backoffs) != 1 || d.Status.Backoffs[0].Class != "Quota" || d.Status.Backoffs[0].Flavor != "m1" || d.Status.Backoffs[0].Step < 10 {
			t.Fatalf("status: %+v", d.Status)
		}
		before := p.cloud.count("EnsureServer")
		p.machine = machine.New(p.options)
		p.pass()
		if n := p.cloud.count("EnsureServer"); n != before {
			t.Errorf("%d attempts", n-before)
		}
	})
	inOrder(t, "all servers are created when the quota has room again, and the back-off is removed (CAPI-22)", func(t *testing.T) {
		p.cloud.full = nil
		p.clock.SetTime(p.clock.Now().Add(5 * time.Minute))
		p.pass()
		if p.cloud.made != 1 {
			t.Errorf("%d servers were made before the first one is ACTIVE", p.cloud.made)
		}
		for uid := range p.cloud.servers {
			p.cloud.change(uid, p.cloud.active)
		}
		p.pass()
		p.pass()
		if p.cloud.made != 3 {
			t.Errorf("%d servers were made", p.cloud.made)
		}
		d := &v1alpha1.MachineDeployment{}
		must(t, p.client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "pool"}, d))
		if len(d.Status.Backoffs) != 0 {
			t.Errorf("back-offs: %+v", d.Status.Backoffs)
		}
	})
}

func TestAnOrderAfterAShortageIsNotTakenBack(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	now := p.clock.Now()
	p.clock.SetTime(now.Add(-time.Hour))
	p.cloud.full = fault.New(fault.NoCapacity, fault.CodeAddressesExhausted, "no more addresses")
	p.createBetween("1", "21")
	p.await("the first Machine exists", func() bool { return len(p.machines()) == 1 })
	first := p.machines()[0].Name
	p.pass()
	// The shortage and the back-off end long before the autoscaler orders again. The group still remembers the shortage.
	p.cloud.full = nil
	p.clock.SetTime(now)
	must(t, p.groups.IncreaseSize(t.Context(), poolID, 20))
	p.await("the ordered Machines exist", func() bool { return len(p.machines()) == 21 })
	inOrder(t, "of 20 nodes ordered after a shortage, none has an error, for which the autoscaler would take it back, while only the group's probe has a server (F-99)", func(t *testing.T) {
		p.pass()
		p.pass()
		for _, m := range p.machines() {
			if m.Name != first && m.Status.ErrorReason != nil {
				t.Errorf("Machine %s shows %s: %s", m.Name, *m.Status.ErrorReason, *m.Status.ErrorMessage)
			}
		}
		if shown := p.errors(); shown > 1 || p.cloud.made != 1 {
			t.Errorf("%d instances have an error and %d servers were made, want at most the first Machine's error, and the probe's server", shown, p.cloud.made)
		}
	})
	inOrder(t, "all ordered nodes get servers when the probe's server is ACTIVE (F-99)", func(t *testing.T) {
		for uid := range p.cloud.servers {
			p.cloud.change(uid, p.cloud.active)
		}
		p.pass()
		p.pass()
		if p.cloud.made != 21 {
			t.Errorf("%d servers were made, want 21", p.cloud.made)
		}
		p.await("no instance has an error", func() bool { return p.errors() == 0 })
	})
}

// errors returns the number of instances that have an error.
func (p *pool) errors() (n int) {
	p.t.Helper()
	list, err := p.groups.Instances(poolID)
	must(p.t, err)
	for _, i := range list {
		if i.Error != nil {
			n++
		}
	}
	return n
}
