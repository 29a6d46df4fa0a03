package bench

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

const (
	// nodesID is the user name under which the benchmark writes Nodes in place of kubelets and of the cloud-controller-manager.
	nodesID = "nodes-under-test"
	// stepTime is how long a registered Node takes to be initialized, and an initialized Node to become Ready.
	stepTime = time.Second
)

// joining registers a Node for every ACTIVE server of drover's, and makes the Node Ready. It lists the servers once a
// second, in its own session.
type joining struct {
	*rig
	client client.Client
	// late is the time from when a server is seen ACTIVE to the registration of its Node.
	late time.Duration

	mu   sync.Mutex
	ends map[string]context.CancelFunc
	peak int
	all  sync.WaitGroup
}

// join registers Nodes until the benchmark ends.
func (r *rig) join(late time.Duration) *joining {
	r.Helper()
	config, err := r.control.ConfigForUser(nodesID, "system:masters")
	r.must(err)
	j := &joining{rig: r, late: late, ends: map[string]context.CancelFunc{}}
	j.client, err = client.New(config, client.Options{Scheme: r.client.Scheme()})
	r.must(err)
	ctx, stop := context.WithCancel(context.WithoutCancel(r.Context()))
	j.all.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(time.Second) {
			j.look(ctx)
		}
	})
	r.Cleanup(func() { stop(); j.all.Wait() })
	return j
}

// look lists the servers once. It starts a Node for each new ACTIVE server, and ends the start of Nodes whose servers are gone.
func (j *joining) look(ctx context.Context) {
	rows, err := j.session.list(ctx, "compute", "/servers/detail?limit=1000", "servers")
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	there := map[string]bool{}
	for _, s := range rows {
		if !j.drovers(s) {
			continue
		}
		there[s.ID] = true
		if s.Status == "ACTIVE" && j.ends[s.ID] == nil {
			var own context.Context
			own, j.ends[s.ID] = context.WithCancel(ctx)
			j.all.Go(func() { j.start(own, s) })
		}
	}
	for id, end := range j.ends {
		if !there[id] {
			end()
			delete(j.ends, id)
		}
	}
	j.peak = max(j.peak, len(there))
}

// drovers reports whether drover created the server in this run.
func (r *rig) drovers(s row) bool {
	return strings.HasPrefix(s.Name, r.name+"-") && !strings.Contains(s.Name, "-floor-")
}

// takePeak returns the largest number of servers that existed at the same time since the previous call.
func (j *joining) takePeak() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	peak := j.peak
	j.peak = 0
	return peak
}

// start makes one Node Ready, unless its server is deleted first. The Node registers with the condition Ready False and
// the taint uninitialized, with the labels that its kubelet takes from the user data.
func (j *joining) start(ctx context.Context, s row) {
	n := registered(s.Name, "openstack:///"+s.ID)
	n.Labels[v1alpha1.LabelOperatingSystem] = "ubuntu"
	var m v1alpha1.Machine
	if err := j.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: s.Name}, &m); err != nil {
		// The Node's Machine is already gone; the server will be deleted, too.
		return
	}
	maps.Copy(n.Labels, m.Spec.Metadata.Labels)
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: kubelet.UninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	steps := []func() error{
		func() error { return j.client.Create(ctx, n) },
		func() error { return j.initialize(ctx, n) },
		func() error { return j.ready(ctx, n) },
	}
	for i, wait := range []time.Duration{j.late, stepTime, stepTime} {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := client.IgnoreNotFound(steps[i]()); err != nil && ctx.Err() == nil {
			j.Errorf("node %s: %v", s.Name, err)
			return
		}
	}
}

// initialize removes the cloud-controller-manager's taint.
func (j *joining) initialize(ctx context.Context, n *corev1.Node) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := j.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == kubelet.UninitializedTaint })
		return j.client.Update(ctx, n)
	})
}

func (j *joining) ready(ctx context.Context, n *corev1.Node) error {
	base := n.DeepCopy()
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.Now()
	return j.client.Status().Patch(ctx, n, client.MergeFrom(base))
}

// running returns the number of Machines that run and whose node no longer has a startup taint.
func (r *rig) running() (n int) {
	var machines v1alpha1.MachineList
	r.must(r.client.List(r.Context(), &machines))
	var nodes corev1.NodeList
	r.must(r.client.List(r.Context(), &nodes, client.HasLabels{v1alpha1.LabelManaged}))
	open := map[string]bool{}
	for i := range nodes.Items {
		open[nodes.Items[i].Name] = !slices.ContainsFunc(nodes.Items[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint })
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.DeletionTimestamp.IsZero() && m.Status.Phase != nil && *m.Status.Phase == v1alpha1.PhaseRunning && m.Status.NodeRef != nil && open[m.Status.NodeRef.Name] {
			n++
		}
	}
	return n
}
