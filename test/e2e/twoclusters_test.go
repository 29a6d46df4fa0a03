//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	apart = "apart"
	// outage is how long an API server is stopped, in addition to the time that its start takes.
	outage = 4 * time.Second
	// droverUser is the user as which drover signs in to both clusters.
	droverUser = "system:serviceaccount:" + v1alpha1.DefaultServiceAccount
)

// divided is a sandbox with two clusters. The Machines are in the control cluster, and their Nodes in the target
// cluster.
type divided struct {
	*sandbox.Sandbox
	*testing.T
	autoscaler proto.CloudProviderClient
}

// in returns the two clusters for use inside a subtest.
func (d divided) in(t *testing.T) divided {
	d.T = t
	return d
}

// TestMachinesInOneClusterAndNodesInAnother takes a group through its life with two control planes, then stops one API
// server after the other.
func TestMachinesInOneClusterAndNodesInAnother(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, NoAutoscaler: true, BootTime: time.Second, TwoClusters: true})
	demo, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	d := divided{Sandbox: s, T: t, autoscaler: calls(t, s)}
	group := badGroup{name: apart, replicas: "1"}
	apply(t, s, apart, group.manifest(t, demo))
	load(t, s, 1)
	t.Run("the Machine of a MachineDeployment in the control cluster becomes a node of the target cluster, on which a pod runs", func(t *testing.T) {
		d.in(t).awaitNodes(1)
		d.in(t).awaitPods(1)
	})
	t.Run("IncreaseSize adds a node, and DeleteNodes drains and removes the node that the request names", func(t *testing.T) {
		d.in(t).scale()
	})
	whole := time.Now()
	t.Run("no server is created or deleted while the target cluster's API server is down, and a new Machine joins afterwards", func(t *testing.T) {
		d := d.in(t)
		d.loses(d.Target, func() { d.resize(2) })
		d.awaitNodes(2)
	})
	t.Run("no server is created or deleted while the control cluster's API server is down, and the group grows afterwards", func(t *testing.T) {
		d := d.in(t)
		d.loses(d.Cluster, func() {})
		d.increase()
		d.awaitNodes(3)
	})
	s.StopDrover(0)
	t.Run("drover sends no request for Machines to the target cluster, and none for Nodes or pods to the control cluster", func(t *testing.T) { d.in(t).judgeRequests(whole) })
	t.Run("Events about Machines are only in the control cluster, and Events about Nodes in the target cluster", func(t *testing.T) { d.in(t).judgeEvents() })
}

// id returns the ID under which the autoscaler knows the group.
func (d divided) id() string { return "MachineDeployment/" + metav1.NamespaceSystem + "/" + apart }

// nodes returns the Nodes of the target cluster that accept pods, and the number of all its Nodes.
func (d divided) nodes(ctx context.Context) (usable []corev1.Node, all int, err error) {
	var list corev1.NodeList
	if err := d.TargetClient.List(ctx, &list); err != nil {
		return nil, 0, err
	}
	for _, n := range list.Items {
		if sandbox.UsableNode(&n) {
			usable = append(usable, n)
		}
	}
	return usable, len(list.Items), nil
}

// awaitNodes waits until there are as many Machines, servers and Nodes as wanted, and every Node accepts pods.
func (d divided) awaitNodes(want int) {
	d.Helper()
	eventually(d.T, func(ctx context.Context) (string, error) {
		if err := d.restart(ctx); err != nil {
			return "", err
		}
		usable, all, err := d.nodes(ctx)
		if err != nil {
			return "", err
		}
		var machines v1alpha1.MachineList
		if err := d.Client.List(ctx, &machines); err != nil {
			return "", err
		}
		servers := len(d.Cloud.Servers())
		if len(usable) == want && all == want && len(machines.Items) == want && servers == want {
			return "", nil
		}
		return fmt.Sprintf("%d nodes: %d of %d take pods; there are %d servers and Machines %s",
			want, len(usable), all, servers, machinesOf(d.T, d.Sandbox)), nil
	})
}

// awaitPods waits until as many pods as wanted run in the target cluster.
func (d divided) awaitPods(want int) {
	d.Helper()
	eventually(d.T, func(ctx context.Context) (string, error) {
		pods, err := d.running(ctx)
		if len(pods) == want || err != nil {
			return "", err
		}
		return fmt.Sprintf("%d pods that run: %d do", want, len(pods)), nil
	})
}

func (d divided) running(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := d.TargetClient.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault))
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning }), err
}

// restart starts drover again after it has ended, as a kubelet does. drover ends when it cannot renew its lease.
func (d divided) restart(ctx context.Context) error {
	ended := d.Err()
	if ended == nil {
		return nil
	}
	d.Logf("drover is started again: %v", ended)
	return d.ReviveDrover(ctx, 0)
}

// increase requests a node as the autoscaler does. drover refuses the call until its caches are synced and it holds its lease.
func (d divided) increase() {
	d.Helper()
	eventually(d.T, func(ctx context.Context) (string, error) {
		if err := d.restart(ctx); err != nil {
			return "", err
		}
		if _, err := d.autoscaler.Refresh(ctx, &proto.RefreshRequest{}); err != nil {
			return "a Refresh: " + err.Error(), nil
		}
		if _, err := d.autoscaler.NodeGroupIncreaseSize(ctx, &proto.NodeGroupIncreaseSizeRequest{Id: d.id(), Delta: 1}); err != nil {
			return "an IncreaseSize: " + err.Error(), nil
		}
		return "", nil
	})
}

// scale adds a node and removes the older one, which runs a pod.
func (d divided) scale() {
	d.Helper()
	pods, err := d.running(d.Context())
	if err != nil || len(pods) != 1 {
		d.Fatalf("%d pods run, error %v", len(pods), err)
	}
	d.increase()
	d.awaitNodes(2)
	var node corev1.Node
	if err := d.TargetClient.Get(d.Context(), client.ObjectKey{Name: pods[0].Spec.NodeName}, &node); err != nil {
		d.Fatal(err)
	}
	request := &proto.NodeGroupDeleteNodesRequest{Id: d.id(), Nodes: []*proto.ExternalGrpcNode{{
		Name: node.Name, ProviderID: node.Spec.ProviderID, Labels: node.Labels, Annotations: node.Annotations,
	}}}
	if _, err := d.autoscaler.NodeGroupDeleteNodes(d.Context(), request); err != nil {
		d.Fatal(err)
	}
	d.awaitNodes(1)
	if err := d.TargetClient.Get(d.Context(), client.ObjectKeyFromObject(&node), &node); client.IgnoreNotFound(err) != nil || err == nil {
		d.Errorf("node %s: error %v, want it gone", node.Name, err)
	}
	evictions := d.requests(d.Target, func(r kube.Request) bool { return r.Subresource == "eviction" && r.Name == pods[0].Name && r.Wrote() })
	if len(evictions) != 1 {
		d.Errorf("pod %s was evicted %d times, want once", pods[0].Name, len(evictions))
	}
	d.awaitPods(1)
}

// resize sets the size of the group.
func (d divided) resize(replicas int) {
	d.Helper()
	md := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: apart, Namespace: metav1.NamespaceSystem}}
	if err := d.Client.Patch(d.Context(), md, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		d.Fatal(err)
	}
}

// loses stops the API server of a cluster, calls the function meanwhile, and starts the API server again after a while.
// It fails the test when a server was created or deleted during the outage, or a Machine was deleted.
func (d divided) loses(cluster *kube.Cluster, meanwhile func()) {
	d.Helper()
	servers, machines := d.servers(), d.machines()
	cluster.StopAPIServer()
	began := time.Now()
	meanwhile()
	eventually(d.T, func(context.Context) (string, error) {
		if now := d.servers(); now != servers {
			return "", fmt.Errorf("the servers changed from %s to %s", servers, now)
		}
		if time.Since(began) < outage {
			return "the end of the outage", nil
		}
		return "", nil
	})
	if err := cluster.StartAPIServer(d.Context()); err != nil {
		d.Fatal(err)
	}
	for uid, m := range d.machines() {
		if _, was := machines[uid]; was && m.DeletionTimestamp != nil {
			d.Errorf("Machine %s is being deleted", m.Name)
		}
		delete(machines, uid)
	}
	if len(machines) > 0 {
		d.Errorf("Machines are gone: %v", machines)
	}
}

// servers returns the names of the cloud's servers.
func (d divided) servers() string {
	var names []string
	for _, s := range d.Cloud.Servers() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// machines returns the Machines by UID.
func (d divided) machines() map[types.UID]v1alpha1.Machine {
	d.Helper()
	var list v1alpha1.MachineList
	if err := d.Client.List(d.Context(), &list); err != nil {
		d.Fatal(err)
	}
	out := map[types.UID]v1alpha1.Machine{}
	for _, m := range list.Items {
		out[m.UID] = m
	}
	return out
}

// requests returns drover's requests to a cluster for which matches returns true.
func (d divided) requests(to *kube.Cluster, matches func(kube.Request) bool) []kube.Request {
	d.Helper()
	all, err := to.Requests()
	if err != nil {
		d.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r kube.Request) bool { return r.User != droverUser || !matches(r) })
}

// ofControl reports whether only the control cluster has the object of a request.
func ofControl(r kube.Request) bool {
	switch r.Group {
	case v1alpha1.GroupVersion.Group, "coordination.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io":
		return true
	}
	return r.Resource == "namespaces" || r.Resource == "configmaps" && r.Namespace != metav1.NamespacePublic
}

// ofTarget reports whether only the target cluster has the object of a request.
func ofTarget(r kube.Request) bool {
	switch r.Group {
	case "certificates.k8s.io", "policy", "storage.k8s.io", "authorization.k8s.io", "networking.k8s.io", "discovery.k8s.io":
		return true
	}
	return slices.Contains([]string{"nodes", "pods", "services", "persistentvolumeclaims"}, r.Resource) ||
		r.Resource == "configmaps" && r.Namespace == metav1.NamespacePublic || r.Resource == "secrets" && r.Verb != "get"
}

// judgeRequests fails the test for each request to the wrong cluster, and for each request that the roles of a cluster
// do not allow. It considers refusals only until the time of the first outage, because an API server that has just
// started refuses even allowed requests until it has read the roles.
func (d divided) judgeRequests(until time.Time) {
	for name, cluster := range map[string]struct {
		*kube.Cluster
		has, hasNot func(kube.Request) bool
	}{"control": {d.Cluster, ofControl, ofTarget}, "target": {d.Target, ofTarget, ofControl}} {
		for _, r := range d.requests(cluster.Cluster, cluster.hasNot) {
			d.Errorf("the %s cluster was asked for what the other one has: %s %s", name, r.Verb, r.URI)
		}
		for _, r := range d.requests(cluster.Cluster, func(r kube.Request) bool { return r.Code == http.StatusForbidden && r.At.Before(until) }) {
			d.Errorf("the %s cluster refused %s %s", name, r.Verb, r.URI)
		}
		if len(d.requests(cluster.Cluster, cluster.has)) == 0 {
			d.Errorf("the %s cluster was asked for nothing", name)
		}
	}
}

// judgeEvents fails the test for each Event from drover about an object that the Event's cluster does not have.
func (d divided) judgeEvents() {
	for name, c := range map[string]client.Client{"control": d.Client, "target": d.TargetClient} {
		var list eventsv1.EventList
		if err := c.List(d.Context(), &list); err != nil {
			d.Fatal(err)
		}
		if name == "control" && len(list.Items) == 0 {
			d.Error("there are no Events about Machines")
		}
		for _, e := range list.Items {
			ofMachines := strings.HasPrefix(e.Regarding.APIVersion, v1alpha1.GroupVersion.Group+"/")
			wrong := name == "target" && ofMachines || name == "control" && e.Regarding.Kind == "Node"
			if strings.HasPrefix(e.ReportingController, "drover") && wrong {
				d.Errorf("the %s cluster has an Event about %s %s: %s", name, e.Regarding.Kind, e.Regarding.Name, e.Note)
			}
		}
	}
}
