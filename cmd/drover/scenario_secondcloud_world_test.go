package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/memorycloud"
)

// inOwnProcess is an environment variable. A test that needs a process of its own does its work only where this is set.
const inOwnProcess = "DROVER_TEST_IN_OWN_PROCESS"

// ownProcess runs the calling test in a process of its own, because drover can run only once in a process: the names of its
// metrics and controllers must be unique. It reports whether the current process is that process.
func ownProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inOwnProcess) != "" {
		return true
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inOwnProcess+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return false
}

// rooms is a cluster whose Machines are servers ("boxes") of a memorycloud.
type rooms struct {
	*testing.T
	client client.Client
	cloud  *memorycloud.Cloud
	// autoscaler makes the calls of cluster-autoscaler.
	autoscaler proto.CloudProviderClient
}

// newRooms starts a control plane, drover with a memorycloud in the place of OpenStack, and kubelets for the boxes.
func newRooms(t *testing.T) *rooms {
	t.Helper()
	cluster := kube.ForTest(t, kube.Options{})
	kinds := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)))
	c, err := client.New(cluster.Config, client.Options{Scheme: kinds})
	must(t, err)
	must(t, deploy.Apply(t.Context(), c, "crds"))
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover"}}))
	r := &rooms{T: t, client: c, cloud: memorycloud.New(200 * time.Millisecond)}
	socket := "unix://" + filepath.Join(t.TempDir(), "grpc")
	o := defaults()
	o.kubeconfig, o.metricsAddress, o.healthAddress = cluster.Kubeconfig, "0", "0"
	o.grpcAddress, o.nodes.apiServer = socket, "https://127.0.0.1:1"
	must(t, o.validate())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, o, surroundings{cluster: cluster.Config, cloud: r.cloud})
	}()
	go r.kubelets(ctx)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("drover ended with %v", err)
		}
	})
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r.autoscaler = proto.NewCloudProviderClient(conn)
	return r
}

// kubelets registers a Ready Node for each running box. It does the work of kubelet, cloud-controller-manager and node
// lifecycle controller.
func (r *rooms) kubelets(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		for _, b := range r.cloud.Boxes() {
			if !b.Running || r.client.Get(ctx, client.ObjectKey{Name: b.Name}, &corev1.Node{}) == nil {
				continue
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.Name, Labels: map[string]string{
				corev1.LabelInstanceTypeStable: b.Size, corev1.LabelTopologyZone: b.Room,
			}}}
			node.Spec.ProviderID = b.ProviderID()
			node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.DefaultStartupTaint, Effect: corev1.TaintEffectNoSchedule}}
			if r.client.Create(ctx, node) != nil {
				continue
			}
			if err := r.ready(ctx, b.Name); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				r.Errorf("making node %s Ready: %v", b.Name, err)
			}
			// A kubelet ends with its server and registers no Node afterwards. Here the box may have been deleted since it was listed.
			// drover keeps a Node that is created after its Machine is gone for --orphan-age.
			if !slices.ContainsFunc(r.cloud.Boxes(), func(now memorycloud.Box) bool { return now.Name == b.Name }) {
				_ = r.client.Delete(ctx, node)
			}
		}
	}
}

// ready makes a Node Ready.
func (r *rooms) ready(ctx context.Context, name string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var node corev1.Node
		if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		node.Status.NodeInfo.KubeletVersion = "v1.37.1"
		if err := r.client.Status().Update(ctx, &node); err != nil {
			return err
		}
		// Admission adds this taint, and no node lifecycle controller runs that would remove it.
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
		return r.client.Update(ctx, &node)
	})
}

// patience is how long the test waits for a state.
const patience = 2 * time.Minute

// until waits until ok returns true.
func (r *rooms) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		var machines v1alpha1.MachineList
		_ = r.client.List(context.Background(), &machines)
		for i := range machines.Items {
			t.Logf("Machine %s: %+v", machines.Items[i].Name, machines.Items[i].Status)
		}
		var nodes corev1.NodeList
		_ = r.client.List(context.Background(), &nodes)
		for i := range nodes.Items {
			t.Logf("Node %s: %+v %+v", nodes.Items[i].Name, nodes.Items[i].Spec, nodes.Items[i].Annotations)
		}
		_, cables := r.cloud.Leftovers()
		t.Fatalf("waiting until %s: %v; there are %d cables, and the boxes %+v", what, err, cables, r.cloud.Boxes())
	}
}

// usable returns the Nodes that are Ready and take pods, by name.
func (r *rooms) usable(t *testing.T) map[string]corev1.Node {
	t.Helper()
	var list corev1.NodeList
	must(t, r.client.List(t.Context(), &list))
	out := map[string]corev1.Node{}
	for i := range list.Items {
		n := list.Items[i]
		closed := slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule })
		if !closed && !n.Spec.Unschedulable && len(n.Status.Conditions) > 0 {
			out[n.Name] = n
		}
	}
	return out
}

// settled waits until there are exactly n usable Nodes, n Machines and n boxes.
func (r *rooms) settled(t *testing.T, n int) {
	t.Helper()
	r.until(t, "the cluster has settled", func() bool {
		var machines v1alpha1.MachineList
		must(t, r.client.List(t.Context(), &machines))
		boxes, cables := r.cloud.Leftovers()
		return len(r.usable(t)) == n && len(machines.Items) == n && boxes == n && cables == n
	})
}

// scale sets the size of the deployment as kubectl scale does.
func (r *rooms) scale(t *testing.T, d *v1alpha1.MachineDeployment, replicas int32) {
	t.Helper()
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	must(t, r.client.SubResource("scale").Update(t.Context(), d.DeepCopy(), client.WithSubResourceBody(body)))
}

// specOf returns the spec of Machines of the given size.
func specOf(size string) v1alpha1.MachineSpec {
	var spec v1alpha1.MachineSpec
	spec.Versions.Kubelet = "1.37.1"
	spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(
		`{"cloudProvider":"memory","operatingSystem":"ubuntu","cloudProviderSpec":{"size":"` + size + `","room":"cellar"}}`)}
	return spec
}
