package machine_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// The tests share one control plane and one manager.
func TestMachinesOnARealControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("a Machine gets a server and a Node, becomes Ready, and leaves nothing when it is deleted", func(t *testing.T) { w.on(t).testLife(t) })
	t.Run("a Machine gets its status back after a client removes the status", func(t *testing.T) {
		t.Parallel()
		w.on(t).testReplaced(t)
	})
	for name, test := range map[string]func(*world, *testing.T){
		"a Machine that is being deleted keeps its server while a volume is attached, even when the Node has no pods (MC-61)":              (*world).testVolumes,
		"the control plane detaches the volume of an evicted pod before the server is deleted (MC-61)":                                     (*world).testAttachController,
		"a pod with two disruption budgets blocks the drain, the condition shows why, and forcing the deletion ends the drain (F-22)":      (*world).testTwoBudgets,
		"a Machine of machine-controller keeps its server and its Node when drover takes over":                                             (*world).testTakenOver,
		"a join timeout that is shortened on the deployment applies at once to a Machine that waits for its Node":                          (*world).testShortened,
		"a Node with the provider ID of another server is not accepted as the Machine's Node (MC-52, MCM-41)":                              (*world).testForeignNode,
		"a server in ERROR is deleted, the Machine's status shows the server's fault, and the Machine can be deleted (MC-49, CAPI-21)":     (*world).testServerInError,
		"a kubelet version outside the allowed skew is shown as an error, and no server is created before an annotation allows it (F-102)": (*world).testSkew,
		"a Machine with an invalid spec and without a server can be deleted (MC-65)":                                                       (*world).testInvalidSpec,
		"a Machine without an owner whose server was deleted becomes Failed":                                                               (*world).testLostServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(w.on(t), t)
		})
	}
}

// testLife follows one Machine. Until its deletion begins, the other tests wait, so that all writes, tokens and servers are this Machine's.
func (w *world) testLife(t *testing.T) {
	m := w.create("alone", nil)
	w.until(m, "it has a server", hasServer)
	w.boot(m)
	w.until(m, "it is Ready", isReady)

	inOrder(t, "the Machine has its finalizers, provider ID, addresses, kubelet version and Node (MC-39, MC-53)", func(t *testing.T) {
		if len(m.Finalizers) != 2 || m.Status.NodeRef == nil || m.Status.NodeRef.Name != "alone" || m.Status.Versions.Kubelet != w.version ||
			len(m.Status.Addresses) != 2 || m.Status.Addresses[1].Type != corev1.NodeInternalIP || *m.Status.Phase != v1alpha1.PhaseRunning {
			t.Errorf("machine: %+v", m)
		}
	})
	inOrder(t, "the Node has its labels, annotations and taints, and the startup taint is gone (MC-55)", func(t *testing.T) {
		n := w.node("alone")
		if n.Labels["team"] != "blue" || n.Annotations[v1alpha1.AnnotationOwnedBy] != string(m.UID) || n.Annotations[v1alpha1.AnnotationNodeMachine] != "default/alone" {
			t.Errorf("node: %+v", n.ObjectMeta)
		}
		if _, ok := n.Labels["node-role.kubernetes.io/worker"]; !ok || startupTaint(n) {
			t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
	})
	inOrder(t, "the Machine's join token no longer exists once the Machine is Ready", func(t *testing.T) {
		var tokens corev1.SecretList
		w.must(w.client.List(w.ctx, &tokens, client.InNamespace("kube-system"), client.HasLabels{v1alpha1.LabelTokenMachine}))
		if len(tokens.Items) != 0 {
			t.Errorf("%d tokens", len(tokens.Items))
		}
	})
	inOrder(t, "drover creates the server with a single call", func(t *testing.T) {
		if n := w.cloud.count("EnsureServer"); n != 1 {
			t.Errorf("%d calls of EnsureServer", n)
		}
	})
	inOrder(t, "drover makes at most 5 writes of the Machine, 2 of the Node and 2 of the join token", w.testWrites)
	inOrder(t, "the serving certificate of the kubelet is approved (MC-58)", w.testServing)
	inOrder(t, "while the Machine is Ready, drover does not approve a certificate request for a Node that belongs to no Machine (MC-58)", w.testUnawaited)
	inOrder(t, "condition Ready of the Machine follows condition Ready of its Node (MC-59)", func(t *testing.T) { w.testTakenBack(t, m) })
	t.Parallel()
	inOrder(t, "the deletion waits for the disruption budget, names the budget, and leaves nothing behind (MC-60, CAPI-38)", func(t *testing.T) { w.testDrain(t, m) })
}

func (w *world) testWrites(t *testing.T) {
	requests, err := w.kube.Requests()
	w.must(err)
	counts := map[string]int{}
	for _, r := range requests {
		drover := strings.Contains(r.URI, "fieldManager=drover-machine")
		token := r.Resource == "secrets" && r.Namespace == "kube-system" && (strings.HasPrefix(r.Name, "bootstrap-token-") || r.Verb == "create")
		if r.Wrote() && (drover || token) {
			counts[r.Resource]++
		}
	}
	t.Logf("writes: %v", counts)
	if counts["machines"] > 5 || counts["nodes"] > 2 || counts["secrets"] > 2 || counts["machines"] == 0 {
		t.Errorf("writes: %v; expected at most 5 of the Machine, 2 of the Node and 2 of the token", counts)
	}
}

func (w *world) testServing(t *testing.T) {
	n := w.node("alone")
	base := n.DeepCopy()
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}, {Type: corev1.NodeHostName, Address: "alone"}}
	w.must(w.client.Status().Patch(w.ctx, n, client.MergeFrom(base)))
	err := wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, 60*time.Second, true, func(ctx context.Context) (bool, error) {
		var list certificatesv1.CertificateSigningRequestList
		if err := w.client.List(ctx, &list); err != nil {
			return false, err
		}
		for _, r := range list.Items {
			if r.Spec.SignerName == certificatesv1.KubeletServingSignerName && len(r.Status.Certificate) > 0 {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Errorf("no serving certificate was signed: %v", err)
	}
}

func (w *world) testUnawaited(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:stranger", Organization: []string{"system:nodes"}}}, key)
	w.must(err)
	w.must(w.client.Create(w.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef", Namespace: "kube-system"}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "auth-extra-groups": bootstrap.Group},
	}))
	config := w.kube.ConfigForNobody()
	config.BearerToken = "abcdef.0123456789abcdef"
	stranger, err := client.New(config, client.Options{Scheme: w.client.Scheme()})
	w.must(err)
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	// The API server accepts the bootstrap token a moment after its Secret was created.
	err = wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return stranger.Create(ctx, request.DeepCopy()) == nil, nil
	})
	w.must(err)
	result, err := w.approver.Reconcile(w.ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: "stranger"}})
	if err != nil || result.RequeueAfter != 0 {
		t.Errorf("result %v, error %v", result, err)
	}
	w.must(w.client.Get(w.ctx, types.NamespacedName{Name: "stranger"}, request))
	if len(request.Status.Conditions) != 0 {
		t.Errorf("the request was decided: %+v", request.Status.Conditions)
	}
}

func (w *world) testTakenBack(t *testing.T, m *v1alpha1.Machine) {
	before := find(m, v1alpha1.ConditionReady)
	w.mu.Lock()
	for _, stop := range w.stop { // the kubelet stops
		stop()
	}
	w.mu.Unlock()
	n := w.node("alone")
	base := n.DeepCopy()
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			n.Status.Conditions[i].Status, n.Status.Conditions[i].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
			n.Status.Conditions[i].LastTransitionTime = metav1.Now()
		}
	}
	w.must(w.client.Status().Patch(w.ctx, n, client.MergeFrom(base)))
	w.until(m, "it is not Ready any more", func(m *v1alpha1.Machine) bool {
		return find(m, v1alpha1.ConditionReady).Status == corev1.ConditionUnknown
	})
	after := find(m, v1alpha1.ConditionReady)
	if after.LastTransitionTime.Time.Before(before.LastTransitionTime.Time) || *m.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("condition %+v, phase %s", after, *m.Status.Phase)
	}
}

func (w *world) testDrain(t *testing.T, m *v1alpha1.Machine) {
	labels := map[string]string{"app": "guarded"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded", Namespace: "default", Labels: labels},
		Spec: corev1.PodSpec{NodeName: "alone", Containers: []corev1.Container{{Name: "c", Image: "none"}}, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
	w.must(wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return w.client.Create(ctx, pod) == nil, nil
	}))
	base := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.must(w.client.Status().Patch(w.ctx, pod, client.MergeFrom(base)))
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	w.must(w.client.Create(w.ctx, budget))
	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "the drain is blocked", func(m *v1alpha1.Machine) bool {
		c := find(m, v1alpha1.ConditionDeleting)
		return c.Reason == "DrainingNode" && strings.Contains(c.Message, "evictions are refused: default/guarded: ") && strings.Contains(c.Message, "disruption budget guard ")
	})
	n := w.node("alone")
	if deletions := w.cloud.count("DeleteServer alone"); !n.Spec.Unschedulable || deletions != 0 {
		t.Errorf("unschedulable %v, %d calls of DeleteServer", n.Spec.Unschedulable, deletions)
	}
	w.must(w.client.Delete(w.ctx, budget))
	// Any change of the Machine requeues it, so the test need not wait for the next retry.
	loosened := m.DeepCopy()
	loosened.Annotations = map[string]string{v1alpha1.AnnotationVolumeDetachTimeout: "1m"}
	w.must(w.client.Patch(w.ctx, loosened, client.MergeFrom(m)))
	w.until(m, "the Machine is gone", func(m *v1alpha1.Machine) bool { return m.Name == "" })
	if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(n), n); !apierrors.IsNotFound(err) {
		t.Errorf("the Node still exists: %v", err)
	}
	if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("the pod still exists: %v", err)
	}
	// A reconcile whose write conflicts is repeated from the start, so Release may be called twice.
	if n := w.cloud.count("Release alone"); n == 0 {
		t.Error("ports and floating IP were not released")
	}
}

func (w *world) testForeignNode(t *testing.T) {
	w.must(w.client.Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + nobodysServer}}))
	m := w.create("taken", nil)
	w.until(m, "it has a server", hasServer)
	w.boot(m)
	w.until(m, "it shows the owner of the Node", func(m *v1alpha1.Machine) bool {
		return find(m, v1alpha1.ConditionReady).Reason == "NodeBelongsToAnother"
	})
	if n := w.node("taken"); v1alpha1.NodeOwner(n.Labels, n.Annotations) != "" {
		t.Errorf("%+v", n.ObjectMeta)
	}
}

func (w *world) testServerInError(*testing.T) {
	m := w.create("error", nil)
	w.until(m, "it has a server", hasServer)
	w.cloud.change(m.UID, func(s *fakeServer) {
		s.State, s.Fault = cloud.ServerError, fault.New(fault.NoCapacity, fault.CodeNoValidHost, "No valid host was found.")
	})
	w.until(m, "the fault is shown and the server is gone", func(m *v1alpha1.Machine) bool {
		return ptr.Deref(m.Status.ErrorReason, "") == string(fault.CodeNoValidHost) && !hasServer(m) && *m.Status.Phase == v1alpha1.PhasePending && w.cloud.count("DeleteServer error") > 0
	})
	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "it is gone", gone)
}

func (w *world) testSkew(t *testing.T) {
	minor := version.MustParseSemantic(w.version).Minor()
	allowed := fmt.Sprintf("allowed are 1.%d to 1.%d", minor-3, minor)
	m := w.create("skewed", func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = fmt.Sprintf("1.%d.3", minor-4) })
	w.until(m, "it shows the error", func(m *v1alpha1.Machine) bool {
		c := find(m, v1alpha1.ConditionSpecValid)
		return c.Status == corev1.ConditionFalse && strings.Contains(c.Message, allowed) && *m.Status.Phase == v1alpha1.PhaseFailed
	})
	if n := w.cloud.count("EnsureServer skewed"); n != 0 {
		t.Errorf("%d servers were asked for", n)
	}
	base := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationAllowSkew, "true")
	w.must(w.client.Patch(w.ctx, m, client.MergeFrom(base)))
	// The wait that the annotation ends takes 30 s.
	begun := time.Now()
	w.until(m, "it has a server once its annotation allows the version", hasServer)
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the annotation had its effect after %s", took)
	}
}

func (w *world) testInvalidSpec(*testing.T) {
	w.cloud.mu.Lock()
	w.cloud.refuse["unreadable"] = fault.New(fault.Invalid, fault.CodeInvalidSpec, "providerSpec.value.cloudProviderSpec.flavour: unknown field; did you mean flavor?")
	w.cloud.mu.Unlock()
	m := w.create("unreadable", nil)
	w.until(m, "it shows the error", func(m *v1alpha1.Machine) bool {
		return ptr.Deref(m.Status.ErrorReason, "") == string(fault.CodeInvalidSpec)
	})
	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "it is gone", gone)
}

func (w *world) testLostServer(t *testing.T) {
	m := w.create("lost", nil)
	w.until(m, "it has a server", hasServer)
	w.cloud.change(m.UID, func(s *fakeServer) { s.exists = false })
	w.until(m, "it is Failed", func(m *v1alpha1.Machine) bool {
		return *m.Status.Phase == v1alpha1.PhaseFailed && find(m, v1alpha1.ConditionServerReady).Reason == "ServerGone"
	})
	if m.DeletionTimestamp != nil {
		t.Error("it was deleted")
	}
}
