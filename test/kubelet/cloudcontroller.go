package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/clock"
)

// Server is a server of the cloud as the cloud-controller-manager sees it.
type Server struct {
	ID, Name, Flavor, Zone, Region string
	// HostID identifies the physical host of the server within its project.
	HostID string
	// ShutDown reports whether the server is shut down.
	ShutDown bool
	// Addresses holds the addresses of the server, with the fixed addresses first.
	Addresses []corev1.NodeAddress
}

// CloudControllerOptions configures the simulated cloud-controller-manager of OpenStack.
type CloudControllerOptions struct {
	// Config is the client configuration with which the simulated cloud-controller-manager reaches the API server.
	Config *rest.Config
	// Servers returns the servers that exist now.
	Servers func() []Server
	// Interval is the interval at which the simulated cloud-controller-manager reads Nodes and servers. The default is 1 s.
	Interval time.Duration
	// Failed is called with each error. By default errors are dropped.
	Failed func(error)
	// Clock is the source of times. The default is the real clock.
	Clock clock.Clock
}

// UninitializedTaint is on a node from its registration until the cloud-controller-manager has initialized it.
const UninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// shutdownTaint is on a Node whose server is shut down, until the Node is Ready.
const shutdownTaint = "node.cloudprovider.kubernetes.io/shutdown"

// HostLabel identifies the physical host of a Node's server. It has the value that the host had when the Node was initialized.
const HostLabel = "topology.openstack.org/host-id"

// providerPrefix is the prefix of the provider ID of a server in the default region.
const providerPrefix = "openstack:///"

// RunCloudControllerManager runs a simulated cloud-controller-manager of OpenStack until ctx ends. It sets the provider ID, addresses,
// zone, region and instance type of new Nodes, and removes the uninitialized taint. It taints the Nodes that are not Ready and whose servers are
// shut down, and deletes those whose servers no longer exist.
func RunCloudControllerManager(ctx context.Context, o CloudControllerOptions) error {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("making the cloud-controller-manager's client: %w", err)
	}
	for ctx.Err() == nil {
		if err := syncNodes(ctx, client, o.Servers); err != nil && ctx.Err() == nil {
			o.Failed(fmt.Errorf("cloud-controller-manager stand-in: %w", err))
		}
		sleep(ctx, o.Clock, o.Interval)
	}
	return nil
}

func syncNodes(ctx context.Context, client kubernetes.Interface, servers func() []Server) error {
	// The Nodes are read first: otherwise the Node of a server that boots in between would look like a Node without a server.
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	byID, byName := map[string]Server{}, map[string]Server{}
	for _, s := range servers() {
		byID[s.ID], byName[s.Name] = s, s
	}
	var failures []error
	for i := range nodes.Items {
		n := &nodes.Items[i]
		server, known := byID[strings.TrimPrefix(n.Spec.ProviderID, providerPrefix)]
		if n.Spec.ProviderID == "" {
			server, known = byName[n.Name]
		}
		if known {
			failures = append(failures, syncNode(ctx, client, n, server))
		} else if strings.HasPrefix(n.Spec.ProviderID, providerPrefix) && !isReady(n) {
			failures = append(failures, deleteNode(ctx, client, n))
		}
	}
	return errors.Join(failures...)
}

// syncNode initializes a Node, or writes what has changed of its server.
func syncNode(ctx context.Context, client kubernetes.Interface, n *corev1.Node, server Server) error {
	switch ready := isReady(n); {
	case uninitialized(n):
		return initialize(ctx, client, n, server)
	case !slices.Equal(n.Status.Addresses, server.Addresses):
		return address(ctx, client, n.Name, server)
	case has(n, shutdownTaint) == ready && (ready || server.ShutDown):
		return taintShutDown(ctx, client, n)
	}
	return nil
}

// deleteNode deletes the Node of a server that does not exist.
func deleteNode(ctx context.Context, client kubernetes.Interface, n *corev1.Node) error {
	err := client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting node %s: %w", n.Name, err)
	}
	return nil
}

func isReady(n *corev1.Node) bool {
	_, ready := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

func uninitialized(n *corev1.Node) bool { return has(n, UninitializedTaint) }

func has(n *corev1.Node, taint string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
}

// taintShutDown adds the taint of a server that is shut down to its Node, or removes it if the Node is Ready.
func taintShutDown(ctx context.Context, client kubernetes.Interface, n *corev1.Node) error {
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == shutdownTaint })
	if !isReady(n) {
		taints = append(taints, corev1.Taint{Key: shutdownTaint, Effect: corev1.TaintEffectNoSchedule})
	}
	return patchNode(ctx, client, n.Name, map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion}, "spec": map[string]any{"taints": taints},
	})
}

func isUninitialized(t corev1.Taint) bool { return t.Key == UninitializedTaint }

// labelsOf returns the labels of a server's Node, those of Kubernetes each under its current key and its deprecated key.
func labelsOf(s Server) map[string]string {
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: s.Flavor, corev1.LabelInstanceType: s.Flavor,
		corev1.LabelTopologyZone: s.Zone, corev1.LabelFailureDomainBetaZone: s.Zone,
		corev1.LabelTopologyRegion: s.Region, corev1.LabelFailureDomainBetaRegion: s.Region,
		HostLabel: s.HostID,
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// initialize writes to a new Node what the cloud knows of the Node's server. Like the real one it removes the taint first, and writes the
// addresses afterwards. So a Node may be without addresses for a moment when other programs begin with it.
func initialize(ctx context.Context, client kubernetes.Interface, n *corev1.Node, s Server) error {
	labels := labelsOf(s)
	fresh, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %s: %w", n.Name, err)
	}
	spec := map[string]any{"taints": slices.DeleteFunc(fresh.Spec.Taints, isUninitialized)}
	if fresh.Spec.ProviderID == "" {
		spec["providerID"] = providerPrefix + s.ID
	}
	// The patch contains the resourceVersion, so that a taint that another client adds meanwhile is not lost.
	metadata := map[string]any{"labels": labels, "resourceVersion": fresh.ResourceVersion}
	if err := patchNode(ctx, client, n.Name, map[string]any{"metadata": metadata, "spec": spec}); err != nil {
		return err
	}
	return address(ctx, client, n.Name, s)
}

// address writes the addresses of a server to the status of its Node.
func address(ctx context.Context, client kubernetes.Interface, node string, s Server) error {
	return patchNode(ctx, client, node, map[string]any{"status": map[string]any{"addresses": s.Addresses}}, "status")
}

func patchNode(ctx context.Context, client kubernetes.Interface, name string, patch map[string]any, subresource ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, subresource...)
	if err != nil {
		return fmt.Errorf("writing node %s: %w", name, err)
	}
	return nil
}
