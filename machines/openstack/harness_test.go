package openstack

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

const testCluster = "cluster-1"

// bench connects a driver to a simulated cloud over real HTTP. Both use one fake clock, which the test advances.
type bench struct {
	t     *testing.T
	ctx   context.Context
	clock *clocktesting.FakeClock
	sim   *sim.Cloud
	cloud *Cloud
	stop  func()
	// options are the options of the next driver that the bench starts. A test may change them before a restart.
	options Options
	// open counts the driver's calls that have no answer yet. If direct is true, the driver uses its own HTTP transport, and its calls
	// are not counted.
	open   *openCalls
	direct bool
}

// openCalls is a RoundTripper that counts the requests that have no answer yet.
type openCalls struct{ n atomic.Int32 }

// RoundTrip sends a request, and counts it until it is answered.
func (o *openCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	o.n.Add(1)
	defer o.n.Add(-1)
	return http.DefaultTransport.RoundTrip(r)
}

// newBench returns a bench whose driver runs.
func newBench(t *testing.T, change ...func(*sim.Config)) *bench {
	t.Helper()
	b := newIdleBench(t, change...)
	b.start()
	return b
}

// newIdleBench returns a bench without a driver, for a test that changes the options of the first one.
func newIdleBench(t *testing.T, change ...func(*sim.Config)) *bench {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	b := &bench{t: t, ctx: ctx, open: &openCalls{}, clock: clocktesting.NewFakeClock(time.Now())}
	config := sim.Config{Clock: b.clock, BootTime: 3 * time.Second, DeleteTime: time.Second, Seed: sim.SeedMetaKube}
	for _, f := range change {
		f(&config)
	}
	b.sim = sim.New(config)
	if err := b.sim.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.sim.Close)
	b.options = Options{Clock: b.clock, ClusterID: testCluster, Options: spec.Options{Configured: b.credentials()}, AllowedEndpoints: []string{"127.0.0.1"}}
	b.stop = func() {}
	t.Cleanup(func() { b.stop() })
	return b
}

// newDirectBench returns a bench whose driver uses its own HTTP transport.
func newDirectBench(t *testing.T, change ...func(*sim.Config)) *bench {
	t.Helper()
	b := newBench(t, change...)
	b.direct = true
	b.restart()
	return b
}

// credentials returns the credentials of the user that the simulated cloud starts with.
func (b *bench) credentials() client.Credentials {
	return client.Credentials{
		IdentityEndpoint: b.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
	}
}

// start starts a new driver without state, as after a crash.
func (b *bench) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	o := b.options
	if o.HTTP == nil && !b.direct {
		o.HTTP = b.open
	}
	c, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Start(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	go func() {
		for {
			select {
			case <-c.Changes():
			case <-ctx.Done():
				return
			}
		}
	}()
	b.cloud = c
	b.stop = func() { cancel(); <-done }
}

func (b *bench) restart() {
	b.t.Helper()
	b.stop()
	b.start()
}

// patience is how many polls the helper eventually waits for open calls. Then it advances the clock although calls are open, because
// the simulated cloud may delay their answers by the same clock.
const patience = 25

// eventually advances the clock in steps until holds returns true. Before each step it waits for open calls, so that calls take little
// time of the fake clock even on a busy computer.
func (b *bench) eventually(what string, holds func() bool) {
	b.t.Helper()
	waited := 0
	err := wait.PollUntilContextTimeout(b.ctx, 2*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		if waited++; b.open.n.Load() > 0 && waited < patience {
			return false, nil
		}
		waited = 0
		if holds() {
			return true, nil
		}
		b.clock.Step(250 * time.Millisecond)
		return false, nil
	})
	if err != nil {
		b.t.Fatalf("never came true: %s", what)
	}
}

// pass advances the clock by d in small steps, and lets the driver run between the steps.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	end := b.clock.Now().Add(d)
	b.eventually("time passes", func() bool {
		b.clock.Step(max(750*time.Millisecond, d/200))
		return !b.clock.Now().Before(end)
	})
}

// fields holds the fields of a cloudProviderSpec.
type fields map[string]any

// seedFields returns the cloudProviderSpec of the documentation's example, without the floating IP pool.
func seedFields() fields {
	return fields{
		"availabilityZone": sim.MetaKubeZone, "flavor": sim.MetaKubeFlavor, "image": sim.MetaKubeImage,
		"network": sim.MetaKubeNetwork, "region": sim.MetaKubeRegion, "securityGroups": []string{sim.MetaKubeSecurityGroup},
		"serverGroupID": sim.MetaKubeServerGroup, "subnet": sim.MetaKubeSubnet,
	}
}

func (f fields) with(name string, value any) fields {
	f[name] = value
	return f
}

func providerValue(t *testing.T, spec fields) *runtime.RawExtension {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"cloudProvider": "openstack", "cloudProviderSpec": spec, "operatingSystem": "ubuntu", "operatingSystemSpec": map[string]any{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: raw}
}

func newMachine(t *testing.T, name string, spec fields) *v1alpha1.Machine {
	t.Helper()
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{Value: providerValue(t, spec)}},
	}
}

func (b *bench) instance(m *v1alpha1.Machine) *instance {
	b.t.Helper()
	i, err := b.cloud.Instance(b.ctx, m)
	if err != nil {
		b.t.Fatal(err)
	}
	return i.(*instance)
}

// synced returns the Machine's instance after drover has listed the project.
func (b *bench) synced(m *v1alpha1.Machine) *instance {
	b.t.Helper()
	i := b.instance(m)
	b.eventually("the project is listed", func() bool {
		f, err := i.Observe(b.ctx)
		return err == nil && f.Synced
	})
	return i
}

func (b *bench) observe(i cloud.Instance) cloud.Facts {
	b.t.Helper()
	f, err := i.Observe(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

// make calls Prepare and EnsureServer, which create the Machine's server.
func (b *bench) make(i cloud.Instance) (*cloud.Server, error) {
	if err := i.Prepare(b.ctx); err != nil {
		return nil, err
	}
	return i.EnsureServer(b.ctx, []byte("#cloud-config\n"))
}

// active creates the Machine's server and waits until a list shows the server as ACTIVE.
func (b *bench) active(m *v1alpha1.Machine) (*instance, *cloud.Server) {
	b.t.Helper()
	i := b.synced(m)
	if _, err := b.make(i); err != nil {
		b.t.Fatal(err)
	}
	b.eventually("the server is ACTIVE", func() bool {
		s := b.observe(i).Server
		return s != nil && s.State == cloud.ServerActive
	})
	return i, b.observe(i).Server
}

// remove deletes the Machine's server and releases its other resources.
func (b *bench) remove(i cloud.Instance) {
	b.t.Helper()
	b.gone(i)
}

// records sets spec.providerID and status.providerStatus of the Machine, as the Machine controller does after it has seen the server.
func (b *bench) records(m *v1alpha1.Machine, s *cloud.Server) {
	b.t.Helper()
	m.Spec.ProviderID = ptr.To(s.ProviderID)
	m.Status.ProviderStatus = s.Record.MergeInto(nil)
}

// recordOf returns the record of a server that the driver wants to store in status.providerStatus.
func recordOf(s *cloud.Server) provider.Record { return *s.Record.(*provider.Record) }

// placeOf returns a record of the project and region in which the driver creates a Machine's resources.
func placeOf(f cloud.Facts) provider.Record {
	if f.Place == nil {
		return provider.Record{}
	}
	return *f.Place.(*provider.Record)
}

// guarded makes the next driver that the bench starts treat the admission policies as in force.
func (b *bench) guarded() { b.options.Guarded = func() bool { return true } }

func (b *bench) connectionOf(uid types.UID) *connection {
	i, _ := b.cloud.machines.get(uid)
	return i.connection
}

func (b *bench) calls(name ...string) int { return b.sim.CallCount(name...) }

func (b *bench) nothingLeft() {
	b.t.Helper()
	if left := b.sim.Leftovers(); !left.Empty() {
		b.t.Fatalf("left in the cloud: %+v", left)
	}
}

func (b *bench) withReader(r ctrlclient.Reader) {
	b.options.Reader = r
	b.restart()
}

func templateOf(m *v1alpha1.Machine) *v1alpha1.MachineTemplateSpec {
	return &v1alpha1.MachineTemplateSpec{Spec: m.Spec}
}
