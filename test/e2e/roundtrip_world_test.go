//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gophercloudopenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/fixtures"
	"github.com/drover-project/drover/test/machinecontroller"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

// roundTrip is a cluster that switches from machine-controller to drover and back.
type roundTrip struct {
	herd
	// manifest is the manifest with which the deployment was created.
	manifest *unstructured.Unstructured
	// predecessor is the simulated machine-controller, and stopped is the function that stops it.
	predecessor *machinecontroller.Controller
	stopped     func()
}

// newRoundTrip starts a sandbox without drover and without its policies. machine-controller runs in it, with a
// deployment whose user data operating-system-manager writes.
func newRoundTrip(t *testing.T) *roundTrip {
	t.Helper()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, NoAutoscaler: true, BootTime: time.Second, Seed: fixtures.Seed})
	s.StopDrover(0)
	demo, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	w := &foreign{s: s, join: fixtures.Join{
		Server: s.Cluster.Config.Host, Authority: s.Cluster.Config.CAData, Kubelet: demo.Group.Spec.Template.Spec.Versions.Kubelet,
	}}
	w.permit(t)
	r := &roundTrip{herd: herd{t, s, "workers", nil}}
	r.kubectl("delete", "-f", manifests+"/policies")
	for _, o := range machinecontroller.Install(fixtures.ManagerGroup) {
		r.must(s.Client.Create(t.Context(), o))
	}
	r.apply(w)
	r.predecessor = machinecontroller.New(r.login(machinecontroller.Account), metav1.NamespaceSystem)
	r.takeOver()
	return r
}

func (r *roundTrip) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// in returns the round trip for use inside a subtest.
func (r *roundTrip) in(t *testing.T) *roundTrip {
	inside := *r
	inside.herd = r.herd.in(t)
	return &inside
}

// apply creates a deployment of three Machines with floating IPs, and the objects that operating-system-manager creates
// for it.
func (r *roundTrip) apply(w *foreign) {
	r.Helper()
	values := fixtures.ValuesOf(r.s.Cloud, w.join.Kubelet)
	values[fixtures.Name] = r.group
	objects, err := fixtures.Read("machine-controller-deployment", values)
	r.must(err)
	d := objects[0]
	d.SetAnnotations(map[string]string{v1alpha1.AnnotationsMinSize[0]: "1", v1alpha1.AnnotationsMaxSize[0]: "9"})
	fixtures.WithManager(d)
	r.must(unstructured.SetNestedField(d.Object, int64(3), "spec", "replicas"))
	r.must(unstructured.SetNestedField(d.Object, openstack.MetaKubePool, "spec", "template", "spec", "providerSpec", "value", "cloudProviderSpec", "floatingIpPool"))
	r.defaulted(d)
	_, secrets := fixtures.ManagerSecrets(d, w.join)
	for _, secret := range secrets {
		r.must(r.s.Client.Create(r.Context(), secret))
	}
	r.manifest = d.DeepCopy()
	r.must(r.s.Client.Create(r.Context(), d))
}

// defaulted changes a deployment's provider spec as machine-controller's webhook does.
func (r *roundTrip) defaulted(d *unstructured.Unstructured) {
	r.Helper()
	path := []string{"spec", "template", "spec", "providerSpec", "value"}
	value, _, err := unstructured.NestedMap(d.Object, path...)
	r.must(err)
	raw, err := json.Marshal(value)
	r.must(err)
	raw, err = machinecontroller.Defaulted(raw)
	r.must(err)
	value = nil
	r.must(json.Unmarshal(raw, &value))
	r.must(unstructured.SetNestedMap(d.Object, value, path...))
}

// login returns a client with the identity of a program's ServiceAccount in kube-system.
func (r *roundTrip) login(account string) client.Client {
	r.Helper()
	config, err := r.s.Cluster.ConfigForUser("system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:authenticated")
	r.must(err)
	c, err := client.New(config, client.Options{Scheme: sandbox.Scheme()})
	r.must(err)
	return c
}

// takeOver starts machine-controller. It runs until stopped is called.
func (r *roundTrip) takeOver() { r.stopped = r.runs(r.predecessor.Run) }

// handOver stops machine-controller, and checks that none of its requests was refused.
func (r *roundTrip) handOver() {
	r.Helper()
	r.stopped()
	for _, err := range r.predecessor.Errors() {
		r.Errorf("machine-controller was refused something: %v", err)
	}
}

// runs starts a program, which runs until the returned function is called.
func (r *roundTrip) runs(program func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { program(ctx) })
	stop = func() {
		cancel()
		ended.Wait()
	}
	r.Cleanup(stop)
	return stop
}

// rewrites writes the deployment again and again, like a client that knows only the manifest. Each write drops
// everything that other clients have added to the object, including finalizers, other annotations and its size.
func (r *roundTrip) rewrites(ctx context.Context, c client.Client) (writes int) {
	ticker := time.NewTicker(3 * pollEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(v1alpha1.MachineDeploymentKind)
		if c.Get(ctx, client.ObjectKeyFromObject(r.manifest), now) == nil {
			sent := r.manifest.DeepCopy()
			sent.SetResourceVersion(now.GetResourceVersion())
			unstructured.RemoveNestedField(sent.Object, "spec", "replicas")
			if c.Update(ctx, sent) == nil {
				writes++
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return writes
}

// author returns the client of a user who may change deployments and nothing else.
func (r *roundTrip) author() client.Client {
	r.Helper()
	const name = "terraform"
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	role := &rbacv1.Role{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Verbs: []string{"get", "update"}, Resources: []string{"machinedeployments"}}},
	}
	r.must(r.s.Client.Create(r.Context(), role))
	r.must(r.s.Client.Create(r.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}},
	}))
	return r.login(name)
}

// balanced waits until there are as many usable Machines as wanted, with one server, one port and one floating IP each.
// spare is the number of additional ports, and of additional floating IPs.
func (r *roundTrip) balanced(want, spare int) {
	r.Helper()
	r.usable(want)
	eventually(r.T, func(ctx context.Context) (string, error) {
		all, err := r.machines(ctx)
		if err != nil {
			return "", err
		}
		left := r.s.Cloud.Leftovers()
		if len(all) != want || len(left.Servers) != want || len(left.Ports) != want+spare || len(left.FloatingIPs) != want+spare {
			return fmt.Sprintf("%d of each, and %d spare: there are %d Machines, %d servers, %d ports, %d floating IPs", want, spare, len(all), len(left.Servers), len(left.Ports), len(left.FloatingIPs)), nil
		}
		var d v1alpha1.MachineDeployment
		if err := r.s.Client.Get(ctx, client.ObjectKeyFromObject(r.manifest), &d); err != nil {
			return "", err
		}
		if d.Spec.Replicas == nil || int(*d.Spec.Replicas) != want {
			return fmt.Sprintf("the size %d: it is %v", want, d.Spec.Replicas), nil
		}
		return r.unmarked(all), nil
	})
}

// unmarked names a server without a Machine, or a Machine that has a server but not drover's finalizers. The text is
// empty when there is neither.
func (r *roundTrip) unmarked(all map[types.UID]v1alpha1.Machine) string {
	for _, server := range r.s.Cloud.Servers() {
		m, ok := all[types.UID(server.Metadata["machine-uid"])]
		if !ok || m.ServerName() != server.Name {
			return "the Machine of server " + server.Name
		}
		if !slices.Contains(m.Finalizers, v1alpha1.FinalizerServer) || !slices.Contains(m.Finalizers, v1alpha1.FinalizerNode) {
			return fmt.Sprintf("the finalizers of Machine %s: it has %v", m.Name, m.Finalizers)
		}
	}
	return ""
}

// takenOver waits until every server has drover's owner tag, and the provider ID of its Machine names the server.
func (r *roundTrip) takenOver() {
	r.Helper()
	eventually(r.T, func(ctx context.Context) (string, error) {
		all, err := r.machines(ctx)
		if err != nil {
			return "", err
		}
		for _, server := range r.s.Cloud.Servers() {
			id := all[types.UID(server.Metadata["machine-uid"])].Spec.ProviderID
			if server.Metadata["drover-cluster-id"] == "" || id == nil || provider.ServerIDOf(*id) != server.ID {
				return "drover to take over server " + server.Name, nil
			}
		}
		return "", nil
	})
}

// calls returns the numbers of requests to create and to delete a server.
func (r *roundTrip) calls() (made, deleted int) {
	return r.s.Cloud.CallCount("POST /servers"), r.s.Cloud.CallCount("DELETE /servers/{id}")
}

// dial connects to drover as the autoscaler does.
func (r *roundTrip) dial() proto.CloudProviderClient {
	r.Helper()
	conn, err := r.s.Dial()
	r.must(err)
	r.Cleanup(func() { _ = conn.Close() })
	rpc := proto.NewCloudProviderClient(conn)
	_, err = rpc.Refresh(r.Context(), &proto.RefreshRequest{})
	r.must(err)
	return rpc
}

func (r *roundTrip) id() string { return "MachineDeployment/" + metav1.NamespaceSystem + "/" + r.group }

// accepted repeats call until it returns something other than the error "nothing was changed". drover returns this error
// while other programs keep writing the object.
func (r *roundTrip) accepted(call func() error) {
	r.Helper()
	eventually(r.T, func(context.Context) (string, error) {
		err := call()
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "nothing was changed") {
			return err.Error(), nil
		}
		return "", err
	})
}

// remove removes Machines by name, as the autoscaler does.
func (r *roundTrip) remove(rpc proto.CloudProviderClient, machines ...v1alpha1.Machine) {
	r.Helper()
	request := &proto.NodeGroupDeleteNodesRequest{Id: r.id()}
	for _, m := range machines {
		var node corev1.Node
		r.must(r.s.Client.Get(r.Context(), client.ObjectKey{Name: m.Status.NodeRef.Name}, &node))
		request.Nodes = append(request.Nodes, &proto.ExternalGrpcNode{Name: node.Name, ProviderID: node.Spec.ProviderID, Annotations: node.Annotations, Labels: node.Labels})
	}
	r.accepted(func() error {
		_, err := rpc.NodeGroupDeleteNodes(r.Context(), request)
		return err
	})
}

// grow requests nodes as the autoscaler does.
func (r *roundTrip) grow(rpc proto.CloudProviderClient, delta int32) {
	r.Helper()
	r.accepted(func() error {
		_, err := rpc.NodeGroupIncreaseSize(r.Context(), &proto.NodeGroupIncreaseSizeRequest{Id: r.id(), Delta: delta})
		return err
	})
}

// living returns the Machines sorted by name.
func (r *roundTrip) living() []v1alpha1.Machine {
	r.Helper()
	all, err := r.machines(r.Context())
	r.must(err)
	return slices.SortedFunc(maps.Values(all), func(a, b v1alpha1.Machine) int { return strings.Compare(a.Name, b.Name) })
}

// writers starts programs that write whole deployments and sets. Each returned function stops one program and returns
// how often it wrote.
func (r *roundTrip) writers() map[string]func() int {
	r.Helper()
	out := map[string]func() int{}
	for name, writer := range map[string]struct {
		client client.Client
		run    func(context.Context, client.Client) int
	}{
		"operating-system-manager": {r.login(machinecontroller.ManagerAccount), func(ctx context.Context, c client.Client) int {
			return machinecontroller.RunManager(ctx, c, metav1.NamespaceSystem)
		}},
		"a client that rewrites whole MachineSets": {r.login(machinecontroller.Account), func(ctx context.Context, c client.Client) int {
			return machinecontroller.RunSetWriter(ctx, c, metav1.NamespaceSystem)
		}},
		"a client that rewrites whole Machines": {r.login(machinecontroller.Account), func(ctx context.Context, c client.Client) int {
			return machinecontroller.RunMachineWriter(ctx, c, metav1.NamespaceSystem)
		}},
		"a client that applies a whole manifest": {r.author(), r.rewrites},
	} {
		writes := 0
		stop := r.runs(func(ctx context.Context) { writes = writer.run(ctx, writer.client) })
		out[name] = func() int {
			stop()
			return writes
		}
	}
	return out
}

// live fails the test unless the given Machines exist and are not being deleted.
func (r *roundTrip) live(want ...v1alpha1.Machine) {
	r.Helper()
	now, err := r.machines(r.Context())
	r.must(err)
	for _, m := range want {
		if there, ok := now[m.UID]; !ok || there.DeletionTimestamp != nil {
			r.Errorf("Machine %s is gone, and another one was named", m.Name)
		}
	}
}

// clusterID returns the ID with which drover tags the resources that it creates.
func (r *roundTrip) clusterID() string {
	r.Helper()
	var system corev1.Namespace
	r.must(r.s.Client.Get(r.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &system))
	return string(system.UID)
}

// descriptions returns the descriptions of the one port and the one floating IP that are left in the cloud.
func (r *roundTrip) descriptions() map[string]string {
	r.Helper()
	provider, err := gophercloudopenstack.AuthenticatedClient(r.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: r.s.Cloud.AuthURL(), Username: openstack.MetaKubeUser, Password: openstack.MetaKubePassword,
		DomainName: openstack.MetaKubeDomain, TenantName: openstack.MetaKubeProject,
	})
	r.must(err)
	network, err := gophercloudopenstack.NewNetworkV2(provider, gophercloud.EndpointOpts{Region: openstack.MetaKubeRegion})
	r.must(err)
	left := r.s.Cloud.Leftovers()
	port, err := ports.Get(r.Context(), network, left.Ports[0]).Extract()
	r.must(err)
	address, err := floatingips.Get(r.Context(), network, left.FloatingIPs[0]).Extract()
	r.must(err)
	return map[string]string{"port": port.Description, "floating IP": address.Description}
}
