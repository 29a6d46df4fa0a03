//go:build cluster

package kube_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/test/kube"
)

const (
	tokenID, tokenSecret = "abcdef", "0123456789abcdef"
	nodeA, nodeB         = "node-a", "node-b"
)

// joining is a cluster that nodes join. The steps of the test build on each other.
type joining struct {
	*kube.Cluster
	admin kubernetes.Interface
	node  kubernetes.Interface // client with the certificate of node A, once it has one
}

func TestNodesJoinATestClusterAndRunPods(t *testing.T) {
	c := kube.ForTest(t, kube.Options{Components: kube.All()})
	j := &joining{Cluster: c, admin: clientFor(t, c.Config)}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"all components of the test's control plane are ready", j.serves},
		{"a pod stays Pending while there is no node", j.podStaysPending},
		{"anyone may read the ConfigMap cluster-info, and its kubeconfig names the server and the CA, but not a user", j.clusterInfoIsPublic},
		{"a bootstrap token may request a node's certificate, and no component approves the request", j.tokenAsks},
		{"a node's certificate is issued once its request is approved", j.approvedIsSigned},
		{"no component approves a request for the renewal of a node's certificate", j.renewalIsNotApproved},
		{"a node may neither create nor change another node, and may not read a bootstrap token", j.nodeMayNotTouchAnother},
		{"on a node with kwok's annotation, kwok runs and deletes the pods instead of a kubelet", j.kwokRunsPods},
		{"kwok writes only to pods, not to nodes and leases", j.kwokLeavesNodesAlone},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow() // the later steps depend on the earlier ones
		}
	}
}

func (j *joining) serves(t *testing.T) {
	version, err := j.admin.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version.GitVersion, "v1.") {
		t.Errorf("the API server calls itself %q, want a release of Kubernetes", version.GitVersion)
	}
	if err := j.Err(); err != nil {
		t.Error(err)
	}
	out, err := j.Kubectl(t.Context(), "get", "namespaces", "--output=name")
	if err != nil || !strings.Contains(string(out), "namespace/kube-public") {
		t.Errorf("kubectl printed %q (%v), want the namespaces", out, err)
	}
}

func (j *joining) podStaysPending(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "waiting"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	if _, err := j.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the scheduler finds the pod unschedulable", func(ctx context.Context) (bool, error) {
		pod, err := j.admin.CoreV1().Pods("default").Get(ctx, "waiting", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return pod.Status.Phase == corev1.PodPending && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		}), nil
	})
}

func (j *joining) clusterInfoIsPublic(t *testing.T) {
	nobody := clientFor(t, j.ConfigForNobody())
	info, err := nobody.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(file.AuthInfos) != 0 || len(file.Clusters) != 1 {
		t.Errorf("it has %d users and %d clusters, want none and one", len(file.AuthInfos), len(file.Clusters))
	}
	for _, cluster := range file.Clusters {
		if cluster.Server != j.Config.Host || string(cluster.CertificateAuthorityData) != string(j.Config.CAData) {
			t.Errorf("it names %s, want %s with its authority", cluster.Server, j.Config.Host)
		}
	}
	if _, err := nobody.CoreV1().ConfigMaps("kube-public").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing as nobody: %v, want Forbidden", err)
	}
}

func (j *joining) tokenAsks(t *testing.T) {
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + tokenID},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": tokenID, "token-secret": tokenSecret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": kube.BootstrapGroup, "expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
	}
	if _, err := j.admin.CoreV1().Secrets("kube-system").Create(t.Context(), token, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bootstrap := clientFor(t, j.ConfigForToken(tokenID+"."+tokenSecret))
	request, _ := nodeRequest(t, "first", nodeA)
	eventually(t, "the token is accepted", func(ctx context.Context) (bool, error) {
		_, err := bootstrap.CertificatesV1().CertificateSigningRequests().Create(ctx, request, metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) {
			return false, nil // the authenticator has not seen the Secret yet
		}
		return err == nil, err
	})
	j.expectUnapproved(t, "first")
}

// expectUnapproved checks that the control plane does not approve the named request. It creates another request, as an administrator,
// which the control plane approves. When that request has its certificate, the control plane has already processed the named one.
func (j *joining) expectUnapproved(t *testing.T, name string) {
	t.Helper()
	barrier, _ := nodeRequest(t, "after-"+name, nodeB)
	if _, err := j.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), barrier, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	j.signed(t, barrier.Name)
	request, err := j.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(request.Status.Conditions) != 0 || len(request.Status.Certificate) != 0 {
		t.Errorf("the request %s has the conditions %v, want none", name, request.Status.Conditions)
	}
}

// signed waits for a request's certificate.
func (j *joining) signed(t *testing.T, name string) (cert []byte) {
	t.Helper()
	eventually(t, name+" is signed", func(ctx context.Context) (bool, error) {
		request, err := j.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		cert = request.Status.Certificate
		return len(cert) > 0, nil
	})
	return cert
}

func (j *joining) approvedIsSigned(t *testing.T) {
	request, key := nodeRequest(t, "second", nodeA)
	bootstrap := clientFor(t, j.ConfigForToken(tokenID+"."+tokenSecret))
	request, err := bootstrap.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "ApprovedByTest",
	}}
	if _, err := j.admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), request.Name, request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	j.node = clientFor(t, j.ConfigForCert(j.signed(t, request.Name), key))
	if _, err := j.node.CoreV1().Nodes().Create(t.Context(), node(nodeA), metav1.CreateOptions{}); err != nil {
		t.Errorf("registering with the signed certificate: %v", err)
	}
}

func (j *joining) renewalIsNotApproved(t *testing.T) {
	request, _ := nodeRequest(t, "renewal", nodeA)
	if _, err := j.node.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	j.expectUnapproved(t, "renewal")
}

func (j *joining) nodeMayNotTouchAnother(t *testing.T) {
	if _, err := j.node.CoreV1().Nodes().Create(t.Context(), node(nodeB), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("node A registers node B: %v, want Forbidden", err)
	}
	if _, err := j.admin.CoreV1().Nodes().Create(t.Context(), node(nodeB), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"mine":"no"}}}`)
	if _, err := j.node.CoreV1().Nodes().Patch(t.Context(), nodeB, types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("node A labels node B: %v, want Forbidden", err)
	}
	if _, err := j.node.CoreV1().Nodes().Patch(t.Context(), nodeA, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Errorf("node A labels itself: %v", err)
	}
	if _, err := j.node.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+tokenID, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("node A reads a Secret of no pod of its own: %v, want Forbidden", err)
	}
}

func (j *joining) kwokRunsPods(t *testing.T) {
	ready := node(nodeA).Status
	if err := j.admin.CoreV1().Nodes().Delete(t.Context(), nodeB, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	registered, err := j.node.CoreV1().Nodes().Get(t.Context(), nodeA, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	registered.Status = ready
	if _, err := j.node.CoreV1().Nodes().UpdateStatus(t.Context(), registered, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := j.admin.CoreV1().Pods("default")
	eventually(t, "the pod runs", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "waiting", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" && pod.Status.ContainerStatuses[0].Ready, nil
	})
	if err := pods.Delete(t.Context(), "waiting", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deleted pod goes", func(ctx context.Context) (bool, error) {
		_, err := pods.Get(ctx, "waiting", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func (j *joining) kwokLeavesNodesAlone(t *testing.T) {
	var pods, others []kube.Request
	eventually(t, "kwok's writes to the pod stand in the audit log", func(context.Context) (bool, error) {
		requests, err := j.Requests()
		if err != nil {
			return false, err
		}
		pods, others = nil, nil
		for _, r := range requests {
			switch {
			case r.User != "drover-test-kwok" || !r.Wrote():
			case r.Resource == "pods":
				pods = append(pods, r)
			default:
				others = append(others, r)
			}
		}
		// The pod must be written as Running and then be deleted. A busy kwok may write a pod twice before it sees its own write.
		return len(pods) >= 2 && pods[len(pods)-1].Verb == "delete", nil
	})
	if len(others) != 0 {
		t.Errorf("kwok also wrote %v", others)
	}
	leases, err := j.admin.CoordinationV1().Leases("kube-node-lease").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 0 {
		t.Errorf("there are %d node leases (%v), want none: the simulated kubelet keeps them", len(leases.Items), err)
	}
}

// nodeRequest returns the request that a kubelet creates, and its private key.
func nodeRequest(t *testing.T, name, node string) (request *certificatesv1.CertificateSigningRequest, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func node(name string) *corev1.Node {
	room := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{kube.FakeNode: "fake"},
			Labels: map[string]string{corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
