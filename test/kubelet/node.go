package kubelet

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	nodeutil "k8s.io/component-helpers/node/util"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	"k8s.io/utils/ptr"
)

// leaseDuration is the duration in the node's lease.
const leaseDuration = 40 * time.Second

// node maintains one Node object and its lease.
type node struct {
	o        Options
	s        *settings
	client   kubernetes.Interface
	capacity corev1.ResourceList
	free     corev1.ResourceList

	registered time.Time
	uid        types.UID
	ready      bool
	// reported is when the conditions were last written.
	reported time.Time
	// identity is the node's own client certificate. server is its serving certificate.
	identity, server rotation
	// addresses are the addresses of the Node; empty until the Node has any.
	addresses []corev1.NodeAddress
	renewed   time.Time
}

func newNode(o Options, s *settings) (*node, error) {
	n := &node{o: o, s: s}
	n.capacity = capacity(o.Capacity, &s.config)
	var err error
	if n.free, err = allocatable(n.capacity, &s.config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", ConfigFile, err)
	}
	return n, nil
}

// object returns the Node as the kubelet registers it.
func (n *node) object() *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:   n.s.name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
		kubeletapis.LabelOS:    "linux",
		kubeletapis.LabelArch:  runtime.GOARCH,
	}
	maps.Copy(labels, n.s.labels)
	taints := append([]corev1.Taint(nil), n.s.taints...)
	if n.s.external {
		taints = append(taints, corev1.Taint{
			Key: UninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule,
		})
	}
	obj := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.s.name, Labels: labels, Annotations: maps.Clone(n.o.Annotations)},
		Spec:       corev1.NodeSpec{ProviderID: n.s.providerID, Taints: taints},
	}
	n.fill(&obj.Status)
	return obj
}

// fill sets what the kubelet itself reports. The cloud-controller-manager sets the addresses, if there is one.
func (n *node) fill(status *corev1.NodeStatus) {
	status.Capacity, status.Allocatable = n.capacity, n.free
	status.NodeInfo.KubeletVersion = n.s.version
	status.NodeInfo.OperatingSystem = "linux"
	status.NodeInfo.Architecture = runtime.GOARCH
	status.NodeInfo.SystemUUID = n.o.InstanceID
	status.NodeInfo.MachineID = n.o.InstanceID
	status.NodeInfo.OSImage = "simulated server"
	status.NodeInfo.ContainerRuntimeVersion = "simulated://1"
	if !n.s.external {
		status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.s.name}}
	}
	status.Conditions = n.conditions(status.Conditions)
}

// conditions returns the current conditions of the node: the kubelet's own, and after them those of other programs as they are in old. The
// transition time of a condition changes only with its status.
func (n *node) conditions(old []corev1.NodeCondition) []corev1.NodeCondition {
	now := metav1.NewTime(n.o.Clock.Now())
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		Reason: "KubeletNotReady", Message: "container runtime network not ready"}
	if n.ready {
		ready = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	}
	current := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
		ready,
	}
	before := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, c := range old {
		before[c.Type] = c
	}
	for i := range current {
		current[i].LastHeartbeatTime, current[i].LastTransitionTime = now, now
		if was, ok := before[current[i].Type]; ok && was.Status == current[i].Status {
			current[i].LastTransitionTime = was.LastTransitionTime
		}
		delete(before, current[i].Type)
	}
	for _, c := range old {
		if _, foreign := before[c.Type]; foreign {
			current = append(current, c)
		}
	}
	return current
}

// register creates the Node, or uses the one that an earlier run on this server created.
func (n *node) register(ctx context.Context) error {
	n.registered = n.o.Clock.Now()
	n.ready = n.canRunPods(n.registered)
	made, err := n.client.CoreV1().Nodes().Create(ctx, n.object(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = n.client.CoreV1().Nodes().Get(ctx, n.s.name, metav1.GetOptions{})
		if err == nil && made.Status.NodeInfo.SystemUUID != n.o.InstanceID {
			return fmt.Errorf("registering node %s: another server (%s) has that name", n.s.name, made.Status.NodeInfo.SystemUUID)
		}
	}
	if err != nil {
		return fmt.Errorf("registering node %s: %w", n.s.name, err)
	}
	n.uid = made.UID
	return nil
}

// restart registers the Node again, as a restarted kubelet does.
func (n *node) restart(ctx context.Context) error {
	n.addresses, n.reported, n.renewed = nil, time.Time{}, time.Time{}
	return n.register(ctx)
}

// settled reports whether the Node is Ready and has the addresses that it needs, so that only heartbeats are left to
// do.
func (n *node) settled() bool { return n.ready && n.addressed() && !n.reported.IsZero() }

// addressed reports whether the node has the addresses for a serving certificate, or does not need any.
func (n *node) addressed() bool { return len(n.addresses) > 0 || !n.s.config.ServerTLSBootstrap }

// beat renews the lease and the conditions when they are due, reports changes, and checks whether the node has addresses.
func (n *node) beat(ctx context.Context) error {
	now := n.o.Clock.Now()
	if due(n.renewed, now, n.o.Heartbeat) {
		if err := n.renewLease(ctx, now); err != nil {
			return err
		}
		n.renewed = now
	}
	ready := n.canRunPods(now)
	if ready == n.ready && n.addressed() && !due(n.reported, now, n.o.Heartbeat) {
		return nil
	}
	obj, err := n.client.CoreV1().Nodes().Get(ctx, n.s.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading own node: %w", err)
	}
	if ready != n.ready || due(n.reported, now, n.o.Heartbeat) {
		if err := n.report(obj, ready); err != nil {
			return err
		}
		n.reported = now
	}
	n.addresses = obj.Status.Addresses
	return nil
}

// due reports whether work is due again now. last is when the work was last done. Work that is due within half of
// settleEvery counts as due.
func due(last, now time.Time, every time.Duration) bool {
	return last.IsZero() || now.Sub(last) >= every-settleEvery/2
}

// canRunPods reports whether the node is Ready at a time.
func (n *node) canRunPods(now time.Time) bool {
	return now.Sub(n.registered) >= n.o.ReadyAfter && !n.o.Fails()
}

func (n *node) report(obj *corev1.Node, ready bool) error {
	was := n.ready
	n.ready = ready
	changed := obj.DeepCopy()
	n.fill(&changed.Status)
	if _, _, err := nodeutil.PatchNodeStatus(n.client.CoreV1(), types.NodeName(n.s.name), obj, changed); err != nil {
		n.ready = was
		return fmt.Errorf("reporting the node's status: %w", err)
	}
	switch {
	case ready && !was:
		n.o.printed("node " + n.s.name + " is ready")
	case was && !ready:
		n.o.printed("node " + n.s.name + " is not ready")
	}
	return nil
}

func (n *node) renewLease(ctx context.Context, now time.Time) error {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, n.s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: n.s.name, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.s.name, UID: n.uid}},
		}}
		n.hold(lease, now)
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else if err == nil {
		n.hold(lease, now)
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renewing the node lease: %w", err)
	}
	return nil
}

func (n *node) hold(lease *coordinationv1.Lease, now time.Time) {
	lease.Spec.HolderIdentity = &n.s.name
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(leaseDuration / time.Second))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
}
