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

// expectation is what is known beforehand of a group's node.
type expectation struct {
	group group
	// runtime begins the version of the node's container runtime.
	runtime string
	// prefix begins the node's provider ID, before the server's ID.
	prefix string
	// gone reports what the cloud still has of the group; empty: nothing.
	gone func() (string, error)
}

// life takes a group's node from the first server to the last thing that is left.
func (w *world) life(e expectation) {
	w.t.Helper()
	n := w.joins(e)
	w.checkNode(e, n)
	w.checkCertificates(n)
	w.runsPod(n)
	w.reboots(e, n)
	w.goes(e, n)
}

// joins has the group's node join, while drover is killed and started again.
func (w *world) joins(e expectation) *corev1.Node {
	w.t.Helper()
	w.apply(e.group)
	w.eventually(func(context.Context) (string, error) {
		if len(w.network.Consoles()) == 0 {
			return "a guest", nil
		}
		return "", nil
	})
	w.KillDrover(0)
	w.say("drover is killed while the guest boots")
	w.eventually(func(context.Context) (string, error) {
		for _, text := range w.network.Consoles() {
			if strings.Contains(text, "systemd") {
				return "", nil
			}
		}
		return "a guest that runs systemd", nil
	})
	if err := w.ReviveDrover(w.t.Context(), 0); err != nil {
		w.t.Fatal(err)
	}
	w.say("drover is started again")
	return w.usable(e.group)
}

// checkNode compares the node with what was asked for.
func (w *world) checkNode(e expectation, n *corev1.Node) {
	t := w.t
	t.Helper()
	m, err := w.machine(t.Context(), e.group)
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
	id := strings.TrimPrefix(n.Spec.ProviderID, e.prefix)
	if _, found := w.network.Consoles()[n.Name]; !found || len(id) != len("00000000-0000-0000-0000-000000000000") || w.network.Console(id) == "" {
		t.Errorf("provider ID %q is not that of a running guest", n.Spec.ProviderID)
	}
	if n.Labels[templateLabel] != "blue" {
		t.Errorf("labels %v: the template's is missing", n.Labels)
	}
	for _, taint := range n.Spec.Taints {
		t.Errorf("the node still has the taint %s", taint.ToString())
	}
}

// checkCertificates waits until the kubelet's requests are approved and signed, one for its client certificate and one for its
// serving certificate, and connects to the kubelet by its name and address with the cluster's CA alone.
func (w *world) checkCertificates(n *corev1.Node) {
	w.t.Helper()
	w.eventually(func(ctx context.Context) (string, error) {
		for _, signer := range []string{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName} {
			switch signed, err := w.signed(ctx, signer); {
			case err != nil:
				return "", err
			case signed == 0:
				return "a certificate of " + signer, nil
			}
		}
		return "", nil
	})
	w.eventually(func(context.Context) (string, error) {
		for _, name := range []string{n.Name, address(n).String()} {
			if err := w.verifies(n, name); err != nil {
				return "a verified connection to the kubelet as " + name + ": " + err.Error(), nil
			}
		}
		return "", nil
	})
}

// signed returns how many requests to a signer are approved and signed.
func (w *world) signed(ctx context.Context, signer string) (int, error) {
	var requests certificatesv1.CertificateSigningRequestList
	if err := w.Client.List(ctx, &requests); err != nil {
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

func address(n *corev1.Node) netip.Addr {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return netip.MustParseAddr(a.Address)
		}
	}
	return netip.Addr{}
}

// verifies connects to the kubelet on port 10250, and checks its certificate for a name.
func (w *world) verifies(n *corev1.Node, name string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.Cluster.Config.CAData)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", net.JoinHostPort(address(n).String(), "10250"), &tls.Config{RootCAs: roots, ServerName: name})
	if err != nil {
		return err
	}
	return conn.Close()
}

// runsPod runs a pod under a disruption budget that forbids its eviction, and waits until it answers.
func (w *world) runsPod(n *corev1.Node) {
	w.t.Helper()
	if err := w.network.Route(pods, address(n)); err != nil {
		w.t.Fatal(err)
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
		if err := w.Client.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
	w.answers(n)
}

// answers waits until the pod answers through the API server.
func (w *world) answers(n *corev1.Node) {
	w.t.Helper()
	w.eventually(func(ctx context.Context) (string, error) {
		missing, err := w.ask(ctx, n)
		return missing, err
	})
	w.say("the pod on %s answers", n.Name)
}

// ask asks the pod for its name; missing says why it does not answer.
func (w *world) ask(ctx context.Context, n *corev1.Node) (missing string, err error) {
	api, err := kubernetes.NewForConfig(w.Cluster.Config)
	if err != nil {
		return "", err
	}
	var all corev1.PodList
	if err := w.Client.List(ctx, &all, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{"app": "hello"}); err != nil {
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

// reboots restarts the guest, after which the node must be the same: its object, its identity and its pod.
func (w *world) reboots(e expectation, n *corev1.Node) {
	w.t.Helper()
	const signer = certificatesv1.KubeAPIServerClientKubeletSignerName
	before, err := w.signed(w.t.Context(), signer)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.network.Reboot(strings.TrimPrefix(n.Spec.ProviderID, e.prefix)); err != nil {
		w.t.Fatal(err)
	}
	w.say("the guest reboots")
	w.eventually(func(ctx context.Context) (string, error) {
		var now corev1.Node
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(n), &now)
		if now.Status.NodeInfo.BootID == n.Status.NodeInfo.BootID {
			return "a node of another boot", err
		}
		return "", err
	})
	again := w.usable(e.group)
	if again.UID != n.UID || again.Spec.ProviderID != n.Spec.ProviderID {
		w.t.Errorf("after the reboot: node %s with %s, want %s with %s", again.UID, again.Spec.ProviderID, n.UID, n.Spec.ProviderID)
	}
	if after, err := w.signed(w.t.Context(), signer); err != nil || after != before {
		w.t.Errorf("the kubelet asked for a client certificate after the reboot: %d before, now %d (%v)", before, after, err)
	}
	w.answers(again)
}

// goes scales the group down. The drain waits for the budget; once that is gone, so are pod, server and everything else.
func (w *world) goes(e expectation, n *corev1.Node) {
	w.t.Helper()
	// Where pods could go nowhere else, drover does not evict them.
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}},
	}}
	if err := w.Client.Create(w.t.Context(), other); err != nil {
		w.t.Fatal(err)
	}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: e.group.name, Namespace: metav1.NamespaceSystem}}
	if err := w.Client.Patch(w.t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))); err != nil {
		w.t.Fatal(err)
	}
	w.eventually(func(ctx context.Context) (string, error) {
		m, err := w.machine(ctx, e.group)
		if err != nil || m == nil {
			return "a Machine whose drain waits", err
		}
		if c := condition(m, v1alpha1.ConditionDeleting); !strings.Contains(c.Message, "hello") || !strings.Contains(c.Message, "budget") {
			return "a drain that names pod and budget; it says " + c.Message, nil
		}
		return "", nil
	})
	w.answers(n)
	w.say("the drain waits for the disruption budget")
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "hello", Namespace: corev1.NamespaceDefault}}
	if err := w.Client.Delete(w.t.Context(), budget); err != nil {
		w.t.Fatal(err)
	}
	w.eventually(func(ctx context.Context) (string, error) { return w.left(ctx, e, n) })
	w.say("nothing is left")
}

// left returns what is still there of a group.
func (w *world) left(ctx context.Context, e expectation, n *corev1.Node) (string, error) {
	if m, err := w.machine(ctx, e.group); err != nil || m != nil {
		return "the Machine's end", err
	}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(n), &corev1.Node{}); client.IgnoreNotFound(err) != nil || err == nil {
		return "the node's end", client.IgnoreNotFound(err)
	}
	var secrets corev1.SecretList
	if err := w.Client.List(ctx, &secrets); err != nil {
		return "", err
	}
	for _, s := range secrets.Items {
		if s.Type == corev1.SecretTypeBootstrapToken {
			return "the end of join token " + s.Name, nil
		}
	}
	if len(w.network.Consoles()) > 0 {
		return "the guest's end", nil
	}
	return e.gone()
}
