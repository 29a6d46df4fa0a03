//go:build boot

package boot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/boot/images"
)

// expectation describes the expected node of a group.
type expectation struct {
	group group
	// runtime is the prefix of the version of the node's container runtime.
	runtime string
	// providerIDPrefix is the prefix of the node's provider ID before the server's ID.
	providerIDPrefix string
	// leftover returns a description of what the cloud still has of the group. It is empty when nothing is left.
	leftover func() (string, error)
}

// runLife creates a group and takes its node through its whole life, until nothing of the group is left.
func (h *harness) runLife(e expectation) {
	h.t.Helper()
	n := h.join(e)
	h.checkNode(e, n)
	h.checkCertificates(n)
	h.runPod(n)
	h.reboot(e, n)
	h.scaleDown(e, n)
}

// join creates the group and waits for its node. It kills drover while the guest boots, and starts it again once systemd runs.
func (h *harness) join(e expectation) *corev1.Node {
	h.t.Helper()
	h.create(e.group)
	h.eventually(func(context.Context) (string, error) {
		if len(h.network.Consoles()) == 0 {
			return "a guest", nil
		}
		return "", nil
	})
	h.KillDrover(0)
	h.logf("drover is killed while the guest boots")
	h.eventually(func(context.Context) (string, error) {
		for _, text := range h.network.Consoles() {
			if strings.Contains(text, "systemd") {
				return "", nil
			}
		}
		return "a guest that runs systemd", nil
	})
	if err := h.ReviveDrover(h.t.Context(), 0); err != nil {
		h.t.Fatal(err)
	}
	h.logf("drover is started again")
	return h.awaitUsableNode(e.group)
}

// checkNode compares the node with its Machine, its guest and the expectation.
func (h *harness) checkNode(e expectation, n *corev1.Node) {
	t := h.t
	t.Helper()
	m, err := h.machine(t.Context(), e.group)
	if err != nil || m == nil {
		t.Fatal(m, err)
	}
	info := n.Status.NodeInfo
	if info.KubeletVersion != "v"+e.group.kubelet || !strings.HasPrefix(info.ContainerRuntimeVersion, e.runtime) {
		t.Errorf("kubelet %s with %s, want v%s with %s", info.KubeletVersion, info.ContainerRuntimeVersion, e.group.kubelet, e.runtime)
	}
	if n.Name != m.ServerName() || m.Status.NodeRef == nil || m.Status.NodeRef.UID != n.UID {
		t.Errorf("node %s (%s) and the Machine's nodeRef %v do not agree", n.Name, n.UID, m.Status.NodeRef)
	}
	id := strings.TrimPrefix(n.Spec.ProviderID, e.providerIDPrefix)
	if _, found := h.network.Consoles()[n.Name]; !found || len(id) != len("00000000-0000-0000-0000-000000000000") || h.network.Console(id) == "" {
		t.Errorf("provider ID %q is not that of a running guest", n.Spec.ProviderID)
	}
	if n.Labels[templateLabel] != "blue" {
		t.Errorf("label %s = %q, want %q", templateLabel, n.Labels[templateLabel], "blue")
	}
	for _, taint := range n.Spec.Taints {
		t.Errorf("the node still has the taint %s", taint.ToString())
	}
}

// checkCertificates waits until the kubelet's two requests are approved and signed, one for its client certificate and
// one for its serving certificate. It then connects to the kubelet by name and by address, trusting only the cluster's
// CA.
func (h *harness) checkCertificates(n *corev1.Node) {
	h.t.Helper()
	h.eventually(func(ctx context.Context) (string, error) {
		for _, signer := range []string{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName} {
			switch signed, err := h.countSigned(ctx, signer); {
			case err != nil:
				return "", err
			case signed == 0:
				return "a certificate of " + signer, nil
			}
		}
		return "", nil
	})
	h.eventually(func(context.Context) (string, error) {
		for _, name := range []string{n.Name, internalIP(n).String()} {
			if err := h.verifyKubelet(n, name); err != nil {
				return "a verified connection to the kubelet as " + name + ": " + err.Error(), nil
			}
		}
		return "", nil
	})
}

// countSigned returns how many certificate requests to a signer are approved and signed.
func (h *harness) countSigned(ctx context.Context, signer string) (int, error) {
	var requests certificatesv1.CertificateSigningRequestList
	if err := h.Client.List(ctx, &requests); err != nil {
		return 0, err
	}
	count := 0
	for _, r := range requests.Items {
		for _, c := range r.Status.Conditions {
			if r.Spec.SignerName == signer && c.Type == certificatesv1.CertificateApproved && len(r.Status.Certificate) > 0 {
				count++
			}
		}
	}
	return count, nil
}

func internalIP(n *corev1.Node) netip.Addr {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return netip.MustParseAddr(a.Address)
		}
	}
	return netip.Addr{}
}

// verifyKubelet connects to the kubelet on port 10250, and verifies that its certificate is for a name or address.
func (h *harness) verifyKubelet(n *corev1.Node, name string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(h.Cluster.Config.CAData)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", net.JoinHostPort(internalIP(n).String(), "10250"), &tls.Config{RootCAs: roots, ServerName: name})
	if err != nil {
		return err
	}
	return conn.Close()
}

// runPod runs a pod under a disruption budget that forbids its eviction, and waits until the pod answers.
func (h *harness) runPod(n *corev1.Node) {
	h.t.Helper()
	if err := h.network.Route(pods, internalIP(n)); err != nil {
		h.t.Fatal(err)
	}
	labels := map[string]string{"app": "hello"}
	meta := metav1.ObjectMeta{Name: "hello", Namespace: corev1.NamespaceDefault, Labels: labels}
	for _, object := range []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: ptr.To[int64](5),
				Containers: []corev1.Container{{
					Name: "hello", Image: images.Hello, ImagePullPolicy: corev1.PullNever,
					Resources:      corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt(8080)}}, TimeoutSeconds: 10},
				}},
			}},
		}},
		&policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, MinAvailable: ptr.To(intstr.FromInt(1)),
		}},
	} {
		if err := h.Client.Create(h.t.Context(), object); err != nil {
			h.t.Fatal(err)
		}
	}
	h.awaitAnswer(n)
}

// awaitAnswer waits until the pod answers through the API server.
func (h *harness) awaitAnswer(n *corev1.Node) {
	h.t.Helper()
	h.eventually(func(ctx context.Context) (string, error) {
		missing, err := h.askPod(ctx, n)
		return missing, err
	})
	h.logf("the pod on %s answers", n.Name)
}

// askPod asks the pod for its name. missing describes what the test still waits for; it is empty when the pod has answered.
func (h *harness) askPod(ctx context.Context, n *corev1.Node) (missing string, err error) {
	api, err := kubernetes.NewForConfig(h.Cluster.Config)
	if err != nil {
		return "", err
	}
	var all corev1.PodList
	if err := h.Client.List(ctx, &all, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{"app": "hello"}); err != nil {
		return "", err
	}
	if len(all.Items) != 1 || all.Items[0].Spec.NodeName != n.Name || all.Items[0].Status.PodIP == "" {
		return "one pod on " + n.Name + " with an address", nil
	}
	pod := all.Items[0].Name
	reply, err := api.CoreV1().Pods(corev1.NamespaceDefault).ProxyGet("http", pod, "8080", "/", nil).DoRaw(ctx)
	if err != nil || string(reply) != "hello from "+pod+"\n" {
		return "an answer of pod " + pod, nil
	}
	return "", nil
}

// reboot restarts the guest. The Node object, the client certificate of its kubelet and its pod must be the same afterwards.
func (h *harness) reboot(e expectation, n *corev1.Node) {
	h.t.Helper()
	const signer = certificatesv1.KubeAPIServerClientKubeletSignerName
	before, err := h.countSigned(h.t.Context(), signer)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.network.Reboot(strings.TrimPrefix(n.Spec.ProviderID, e.providerIDPrefix)); err != nil {
		h.t.Fatal(err)
	}
	h.logf("the guest reboots")
	h.eventually(func(ctx context.Context) (string, error) {
		var now corev1.Node
		err := h.Client.Get(ctx, client.ObjectKeyFromObject(n), &now)
		if now.Status.NodeInfo.BootID == n.Status.NodeInfo.BootID {
			return "a node of another boot", err
		}
		return "", err
	})
	again := h.awaitUsableNode(e.group)
	if again.UID != n.UID || again.Spec.ProviderID != n.Spec.ProviderID {
		h.t.Errorf("after the reboot: node %s with %s, want %s with %s", again.UID, again.Spec.ProviderID, n.UID, n.Spec.ProviderID)
	}
	if after, err := h.countSigned(h.t.Context(), signer); err != nil || after != before {
		h.t.Errorf("the kubelet asked for a client certificate after the reboot: %d before, now %d (%v)", before, after, err)
	}
	h.awaitAnswer(again)
}

// scaleDown scales the group to 0. The drain must wait for the disruption budget. After the deletion of the budget, the
// pod, the server and everything else of the group must be deleted.
func (h *harness) scaleDown(e expectation, n *corev1.Node) {
	h.t.Helper()
	// drover evicts pods only when there is another Node.
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}},
	}}
	if err := h.Client.Create(h.t.Context(), other); err != nil {
		h.t.Fatal(err)
	}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: e.group.name, Namespace: metav1.NamespaceSystem}}
	if err := h.Client.Patch(h.t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))); err != nil {
		h.t.Fatal(err)
	}
	h.eventually(func(ctx context.Context) (string, error) {
		m, err := h.machine(ctx, e.group)
		if err != nil || m == nil {
			return "the Machine, whose drain must wait for the budget", err
		}
		if c := condition(m, v1alpha1.ConditionDeleting); !strings.Contains(c.Message, "hello") || !strings.Contains(c.Message, "budget") {
			return "a condition Deleting that names pod and budget; its message is " + c.Message, nil
		}
		return "", nil
	})
	h.awaitAnswer(n)
	h.logf("the drain waits for the disruption budget")
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: corev1.NamespaceDefault}}
	if err := h.Client.Delete(h.t.Context(), budget); err != nil {
		h.t.Fatal(err)
	}
	h.eventually(func(ctx context.Context) (string, error) { return h.leftover(ctx, e, n) })
	h.logf("nothing is left")
}

// leftover describes what is left of a group in the cluster, among the guests and in the cloud. It is empty when
// nothing is left.
func (h *harness) leftover(ctx context.Context, e expectation, n *corev1.Node) (string, error) {
	if m, err := h.machine(ctx, e.group); err != nil || m != nil {
		return "the deletion of the Machine", err
	}
	if err := h.Client.Get(ctx, client.ObjectKeyFromObject(n), &corev1.Node{}); client.IgnoreNotFound(err) != nil || err == nil {
		return "the deletion of the node", client.IgnoreNotFound(err)
	}
	var secrets corev1.SecretList
	if err := h.Client.List(ctx, &secrets); err != nil {
		return "", err
	}
	for _, s := range secrets.Items {
		if s.Type == corev1.SecretTypeBootstrapToken {
			return "the deletion of join token " + s.Name, nil
		}
	}
	if len(h.network.Consoles()) > 0 {
		return "the end of the guest", nil
	}
	return e.leftover()
}
