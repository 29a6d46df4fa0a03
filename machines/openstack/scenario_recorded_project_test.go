package openstack

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
	sim "github.com/drover-project/drover/test/openstack"
)

// referenced returns a Machine whose spec references a ConfigMap, a Cluster, a MachineClass and a Secret. It also returns these
// objects by kind.
func (b *bench) referenced(t *testing.T, name string) (*v1alpha1.Machine, map[string]ctrlclient.Object) {
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: name}
	spec := fromSecret(name)
	spec["projectName"] = map[string]any{"configMapKeyRef": map[string]string{"namespace": "kube-system", "name": name, "key": "project"}}
	m := newMachine(t, name, spec)
	m.Labels = map[string]string{v1alpha1.ClusterNameLabel: name}
	m.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: name}}}
	return m, map[string]ctrlclient.Object{
		"Secret":       b.passwordSecret(name),
		"ConfigMap":    configMapOf(name, map[string]string{"project": sim.MetaKubeProject}),
		"Cluster":      &v1alpha1.Cluster{ObjectMeta: meta},
		"MachineClass": &v1alpha1.MachineClass{ObjectMeta: meta, ProviderSpec: providerValue(t, fields{})},
	}
}

// withReferenced restarts the driver without a configured cloud, and with a client of an API server that has these objects.
func (b *bench) withReferenced(t *testing.T, objects map[string]ctrlclient.Object) ctrlclient.Client {
	t.Helper()
	var all []ctrlclient.Object
	for _, o := range objects {
		all = append(all, o)
	}
	reader := newReader(t, all...).(ctrlclient.Client)
	b.options.Configured = client.Credentials{}
	b.withReader(reader)
	return reader
}

// places stores the project and region of the Machine's resources in its status, as the Machine controller does before the first
// create.
func (b *bench) places(t *testing.T, m *v1alpha1.Machine, f cloud.Facts) {
	t.Helper()
	if placeOf(f).ProjectID == "" {
		t.Fatalf("%+v names no project", f)
	}
	m.Status.ProviderStatus = f.Place.MergeInto(nil)
}

// leaves marks the Machine as being deleted.
func leaves(m *v1alpha1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Now()) }

// found returns the instance of a Machine that is being deleted, once its project is listed.
func (b *bench) found(t *testing.T, m *v1alpha1.Machine) cloud.Instance {
	t.Helper()
	var i cloud.Instance
	b.eventually("the Machine's resources are found", func() bool {
		var err error
		if i, err = b.cloud.Instance(b.ctx, m); err != nil {
			return false
		}
		f, err := i.Observe(b.ctx)
		return err == nil && f.Synced
	})
	return i
}

func TestDeletionOfAMachineWhoseReferencedObjectsAreGone(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"ConfigMap", "Secret", "Cluster", "MachineClass"} {
		t.Run("deletes a server although the answer to its create was lost and the Machine's "+lost+" is gone (F-17)", func(t *testing.T) {
			b := newBench(t)
			m, objects := b.referenced(t, "a")
			api := b.withReferenced(t, objects)
			i := b.synced(m)
			b.places(t, m, b.observe(i))
			b.sim.Inject(sim.Fault{Call: "POST /servers", Drop: true, Times: 1})
			if _, err := b.make(i); err == nil {
				t.Fatal("the answer was not lost")
			}
			if err := api.Delete(b.ctx, objects[lost]); err != nil {
				t.Fatal(err)
			}
			leaves(m)
			b.gone(b.found(t, m))
			b.nothingLeft()
		})
	}
	t.Run("deletes a retained port after a restart, with the credentials of another Machine of the project (F-17)", func(t *testing.T) {
		b := newBench(t)
		m, objects := b.referenced(t, "a")
		other, otherObjects := b.referenced(t, "b")
		for kind, o := range otherObjects {
			objects["other "+kind] = o
		}
		api := b.withReferenced(t, objects)
		i := b.synced(m)
		b.places(t, m, b.observe(i))
		if err := i.ensurePorts(b.ctx); err != nil {
			t.Fatal(err)
		}
		if err := api.Delete(b.ctx, objects["Secret"]); err != nil {
			t.Fatal(err)
		}
		leaves(m)
		b.restart()
		if _, err := b.cloud.Instance(b.ctx, m); !fault.Is(err, fault.Auth) {
			t.Fatalf("the project is already known: %v", err)
		}
		b.synced(other)
		b.gone(b.found(t, m))
		b.nothingLeft()
	})
	t.Run("when the Machine's status records no project, deletes the server that drover finds by its owner tag (F-17)", func(t *testing.T) {
		b := newBench(t)
		m, objects := b.referenced(t, "a")
		api := b.withReferenced(t, objects)
		b.active(m)
		if err := api.Delete(b.ctx, objects["Cluster"]); err != nil {
			t.Fatal(err)
		}
		leaves(m)
		b.gone(b.found(t, m))
		b.nothingLeft()
	})
}

func TestReleaseWhileACreateIsInDoubt(t *testing.T) {
	t.Parallel()
	t.Run("port and floating IP are kept, because the server whose create is in doubt may exist and use them (F-17)", func(t *testing.T) {
		b := newBench(t)
		b.sim.SetListLag(10 * time.Second)
		m := newMachine(t, "a", fullFields())
		i := b.synced(m)
		b.sim.Inject(sim.Fault{Call: "POST /servers", Drop: true, Times: 1})
		if _, err := b.make(i); err == nil {
			t.Fatal("the answer was not lost")
		}
		leaves(m)
		if released, err := b.instance(m).Release(b.ctx); err != nil || released.Done {
			t.Fatalf("released %+v, %v", released, err)
		}
		if left := b.sim.Leftovers(); len(left.Servers) != 1 || len(left.Ports) != 1 || len(left.FloatingIPs) != 1 {
			t.Errorf("left: %+v", left)
		}
		b.gone(b.found(t, m))
		b.nothingLeft()
	})
}

func TestDeletionOfAMachineInAnUnknownProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m, objects := b.referenced(t, "a")
	delete(objects, "Cluster")
	b.withReferenced(t, objects)
	leaves(m)
	t.Run("the Machine stays while drover has no credentials for its recorded project, and the error shows the remedy (F-17)", func(t *testing.T) {
		own := m.DeepCopy()
		b.places(t, own, cloud.Facts{Place: &provider.Record{ProjectID: "0123456789abcdef0123456789abcdef", Region: "west"}})
		b.pass(2 * startGrace)
		_, err := b.cloud.Instance(b.ctx, own)
		if !fault.Is(err, fault.Auth) || fault.Is(err, fault.Invalid) {
			t.Fatalf("got %v", err)
		}
		for _, word := range []string{"0123456789abcdef0123456789abcdef", "west", "Cluster kube-system/a", "restore", v1alpha1.AnnotationForceDelete} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not name %s", err, word)
			}
		}
	})
	t.Run("a Machine without a recorded project is removed when no known project has a resource of the Machine (F-17)", func(t *testing.T) {
		b.restart()
		if _, err := b.cloud.Instance(b.ctx, m); !fault.Is(err, fault.Transient) {
			t.Fatalf("IsServerGone() just after the start: %v, want an error", err)
		}
		b.pass(startGrace + time.Second)
		if _, err := b.cloud.Instance(b.ctx, m); !fault.Is(err, fault.Invalid) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("the Machine stays until drover has listed the servers of all projects for which drover has credentials (F-17)", func(t *testing.T) {
		b.sim.Inject(sim.Fault{Call: "GET /servers/detail", Status: 503, Times: 1000})
		b.restart()
		other := newMachine(t, "b", seedFields())
		other.Spec.ProviderSpec.Value = providerValue(t, fromSecret("a"))
		b.instance(other)
		b.pass(startGrace + time.Second)
		if _, err := b.cloud.Instance(b.ctx, m); !fault.Is(err, fault.Transient) || !strings.Contains(err.Error(), "have not been listed") {
			t.Fatalf("got %v", err)
		}
	})
}

func TestCredentialsThatChangeToAnotherProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sim.AddUser(sim.User{Name: "other", Password: "other-secret", Projects: []string{"other"}})
	m := newMachine(t, "a", seedFields())
	i := b.synced(m)
	b.places(t, m, b.observe(i))
	there := seedFields().with("identityEndpoint", b.sim.AuthURL()).with("username", "other").with("password", "other-secret").with("projectName", "other").with("domainName", sim.MetaKubeDomain)
	t.Run("the new credentials are used for a Machine without resources (F-17)", func(t *testing.T) {
		moved := m.DeepCopy()
		moved.Spec.ProviderSpec.Value = providerValue(t, there)
		b.synced(moved)
		f := b.observe(b.instance(moved))
		if before := provider.RecordOf(m); f.Unknown != "" || placeOf(f).ProjectID == before.ProjectID || placeOf(f).ProjectID == "" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("the new credentials are not used for a Machine with a port, because the port is in the old project (F-17)", func(t *testing.T) {
		if err := b.instance(m).ensurePorts(b.ctx); err != nil {
			t.Fatal(err)
		}
		moved := m.DeepCopy()
		moved.Spec.ProviderSpec.Value = providerValue(t, there)
		if f := b.observe(b.synced(moved)); !strings.Contains(f.Unknown, provider.RecordOf(m).ProjectID) {
			t.Errorf("got %+v", f)
		}
		leaves(moved)
		b.gone(b.found(t, moved))
		b.nothingLeft()
	})
}

func TestProjectIDThatTwoKeystonesClaim(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := state.Site{Project: "p", Region: "r"}
	claims := func(endpoint string, s *client.Session) *connection {
		p := inventory.New(inventory.Options{Clock: b.clock, Session: s, Endpoint: endpoint, Site: at, Cluster: testCluster, Machines: newRegistry()})
		conn := &connection{session: s}
		b.cloud.connections.attach(conn, endpoint, func() followed { return followed{Project: p} })
		conn, err := b.cloud.connections.get(endpoint, func() (*connection, error) { return conn, nil })
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	session := func(endpoint string) *client.Session {
		s, err := b.cloud.client.Session(client.Credentials{IdentityEndpoint: endpoint, Username: "u", Password: "p", Vouched: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const theirs, another = "https://one.example:5000", "https://two.example:5000"
	first := claims(theirs, session(theirs))
	t.Run("the connection to the first Keystone is used while no other Keystone claims the project (F-15)", func(t *testing.T) {
		if got := b.cloud.connectionTo(at); got != first {
			t.Errorf("got %v", got)
		}
	})
	claims(another, session(another))
	t.Run("no connection is used when two Keystones claim the project and neither is the configured cloud's (F-15)", func(t *testing.T) {
		if got := b.cloud.connectionTo(at); got != nil {
			t.Errorf("got %v", got)
		}
	})
	own := client.NormalEndpoint(b.options.Configured.IdentityEndpoint)
	configured := claims(own, session(own))
	t.Run("the configured cloud's connection is used when its Keystone is one of several that claim the project (F-15)", func(t *testing.T) {
		if got := b.cloud.connectionTo(at); got != configured {
			t.Errorf("got %v", got)
		}
	})
}
