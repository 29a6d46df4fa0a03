//go:build cluster

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"regexp"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/sandbox"
)

// wanted describes a certificate that a client requests.
type wanted struct {
	signer string
	usage  certificatesv1.KeyUsage
	of     x509.CertificateRequest
}

func subject(node string, organizations ...string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: append([]string{"system:nodes"}, organizations...)}
}

// identity returns the request for the client certificate of a node.
func identity(node string, organizations ...string) wanted {
	return wanted{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth, x509.CertificateRequest{Subject: subject(node, organizations...)}}
}

// serving returns the request for a serving certificate of a node, for names and addresses.
func serving(node string, hosts ...string) wanted {
	w := wanted{certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth, x509.CertificateRequest{Subject: subject(node)}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			w.of.IPAddresses = append(w.of.IPAddresses, ip)
		} else {
			w.of.DNSNames = append(w.of.DNSNames, host)
		}
	}
	return w
}

// request creates a CertificateSigningRequest.
func (w *world) request(as client.Client, name string, what wanted) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	pem, err := cert.MakeCSRFromTemplate(key, &what.of)
	w.must(err)
	return as.Create(w.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem, SignerName: what.signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, what.usage},
		},
	})
}

// ask creates a CertificateSigningRequest that must not be approved.
func (w *world) ask(as client.Client, a attempt, what wanted) error {
	err := w.request(as, a.key(), what)
	if err == nil {
		w.forged[a.key()] = true
	}
	return err
}

// patchNode patches a Node with the credentials of the author's kubelet.
func (w *world) patchNode(name, body string, subresource ...string) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(subresource) > 0 {
		return w.kubelet.Status().Patch(w.Context(), n, merge(body))
	}
	return w.kubelet.Patch(w.Context(), n, merge(body))
}

// nodeAttempts returns the attacks that a kubelet makes on Nodes and other objects.
func nodeAttempts() []attempt {
	other := func(body string, subresource ...string) func(*world, attempt) error {
		return func(w *world, _ attempt) error { return w.patchNode(w.victim.ServerName(), body, subresource...) }
	}
	own := func(body func(*world) string, subresource ...string) func(*world, attempt) error {
		return func(w *world, _ attempt) error { return w.patchNode(w.node, body(w), subresource...) }
	}
	annotation := func(key string, value func(*world) string) func(*world, attempt) error {
		return own(func(w *world) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value(w)) })
	}
	remove := func(name func(*world) string) func(*world, attempt) error {
		return func(w *world, _ attempt) error {
			return w.kubelet.Delete(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(w)}})
		}
	}
	return []attempt{
		{by: aKubelet, to: "label another Node", finding: "F-6", stop: rights, try: other(`{"metadata":{"labels":{"a":"b"}}}`)},
		{by: aKubelet, to: "report that another Node is not Ready", finding: "F-6", stop: rights,
			try: other(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "status")},
		{by: aKubelet, to: "delete another Node", finding: "F-6", stop: rights, try: remove(func(w *world) string { return w.victim.ServerName() })},
		{by: aKubelet, to: "delete its own Node, to register it with another provider ID", finding: "F-6", stop: rights, try: remove(func(w *world) string { return w.node })},
		{by: aKubelet, to: "remove a taint that an administrator put on its Node", finding: "F-6", stop: rights, try: own(func(*world) string { return `{"spec":{"taints":null}}` })},
		{by: aKubelet, to: "set a label of node-restriction.kubernetes.io on its Node", finding: "F-6", stop: rights,
			try: own(func(*world) string { return `{"metadata":{"labels":{"` + auditLabel + `":"no"}}}` })},
		{by: aKubelet, to: "have drover remove that taint and that label: it edits the record of what drover put there", finding: "F-6", stop: product,
			try: annotation(v1alpha1.AnnotationNodeSynced, func(*world) string {
				return `{"labels":{"` + auditLabel + `":"yes"},"taints":{"` + audit + `:NoSchedule":"yes"},"started":true}`
			})},
		{by: aKubelet, to: "have drover undo what a rollout put on Nodes: it edits that record", finding: "F-6", stop: product,
			try: annotation(v1alpha1.AnnotationNodeRolling, func(w *world) string {
				return `{"deployment":"kube-system/` + w.herd.group + `","taint":true,"scaleDownDisabled":true}`
			})},
		{by: aKubelet, to: "pass for the Node of another Machine: it sets the mark of that Machine", finding: "F-6", stop: product,
			try: own(func(w *world) string {
				return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelOwnedBy, w.victim.UID)
			})},
		{by: aKubelet, to: "pass for the Node of another Machine: it names that Machine in the annotation", finding: "F-6", stop: product,
			try: annotation(v1alpha1.AnnotationNodeMachine, func(w *world) string { return w.victim.Namespace + "/" + w.victim.Name })},
		{by: aKubelet, to: "change the provider ID of its Node to that of another server", finding: "F-4", stop: validation,
			try: own(func(w *world) string { return `{"spec":{"providerID":"openstack:///` + w.others.controlPlane + `"}}` })},
		{by: aKubelet, to: "report the addresses of another Node", finding: "F-2", stop: product,
			try: own(func(w *world) string {
				return `{"status":{"addresses":[{"type":"InternalIP","address":"` + w.victimAddress() + `"},{"type":"InternalIP","address":"10.96.0.1"}]}}`
			}, "status")},
		{by: aKubelet, to: "register a second Node", finding: "F-4", stop: rights,
			try: func(w *world, a attempt) error {
				return w.kubelet.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.key()}})
			}},
		{by: aKubelet, to: "read a Secret of kube-system", finding: "F-10", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.kubelet.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: keys}, &corev1.Secret{})
			}},
		{by: aKubelet, to: "read the bootstrap tokens of other servers", finding: "F-10", stop: rights,
			try: func(w *world, _ attempt) error {
				return w.kubelet.List(w.Context(), &corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem))
			}},
		{by: aKubelet, to: "read Machines and the credentials in their specs", finding: "F-10", stop: rights,
			try: func(w *world, _ attempt) error { return w.kubelet.List(w.Context(), &v1alpha1.MachineList{}) }},
		{by: aKubelet, to: "delete its own Machine", finding: "F-5", stop: rights,
			try: func(w *world, _ attempt) error { return w.kubelet.Delete(w.Context(), w.own.DeepCopy()) }},
		{by: aKubelet, to: "evict a pod of another Node", finding: "F-6", stop: rights,
			try: func(w *world, _ attempt) error {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "on-" + w.victim.ServerName()}}
				return w.kubelet.SubResource("eviction").Create(w.Context(), pod, &policyv1.Eviction{})
			}},
	}
}

// joinToken matches a bootstrap token in user data.
var joinToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// joinTokenOf returns the bootstrap token in user data.
func (w *world) joinTokenOf(userData []byte) string {
	w.Helper()
	document, err := kubelet.Decompress(userData)
	w.must(err)
	token := string(joinToken.Find(document))
	if token == "" {
		w.Fatal("the user data has no bootstrap token")
	}
	return token
}

// certificateAttempts returns the attacks by which a kubelet tries to get a certificate.
func certificateAttempts() []attempt {
	asks := func(what func(*world) wanted) func(*world, attempt) error {
		return func(w *world, a attempt) error { return w.ask(w.kubelet, a, what(w)) }
	}
	return []attempt{
		{by: aKubelet, to: "get a client certificate of another Node", finding: "F-2", stop: rights, older: true, try: asks(func(w *world) wanted { return identity(w.victim.ServerName()) })},
		{by: aKubelet, to: "get a client certificate of the control plane's Node", finding: "F-2", stop: rights, older: true, try: asks(func(*world) wanted { return identity(controlPlane) })},
		{by: aKubelet, to: "get a client certificate of an administrator", finding: "F-2", stop: product, try: asks(func(w *world) wanted { return identity(w.node, "system:masters") })},
		{by: aKubelet, to: "get a serving certificate for the name of the API server", finding: "F-2", stop: product,
			try: asks(func(w *world) wanted { return serving(w.node, w.node, "kubernetes.default.svc") })},
		{by: aKubelet, to: "get a serving certificate for the address of the API server", finding: "F-2", stop: product,
			try: asks(func(w *world) wanted { return serving(w.node, "10.96.0.1") })},
		{by: aKubelet, to: "get a serving certificate for the address of another Node", finding: "F-2", stop: product,
			try: asks(func(w *world) wanted { return serving(w.node, w.victimAddress()) })},
		{by: aKubelet, to: "get a serving certificate for the name of another Node", finding: "F-2", stop: product,
			try: asks(func(w *world) wanted { return serving(w.node, w.victim.ServerName()) })},
		{by: aKubelet, to: "ask for another first certificate with the bootstrap token on its disk", finding: "F-2", stop: product,
			try: func(w *world, a attempt) error {
				server, _ := w.s.Cloud.Server(serverOf(w.own))
				as, err := client.New(w.s.Cluster.ConfigForToken(w.joinTokenOf(server.UserData)), client.Options{Scheme: sandbox.Scheme()})
				if err != nil {
					return err
				}
				// The API server may cache the token for 10 s after its last use, although drover has deleted the token.
				if err := w.ask(as, a, identity(w.victim.ServerName())); !apierrors.IsUnauthorized(err) {
					return err
				}
				return nil
			}},
	}
}

// victimAddress returns the address of the victim's server.
func (w *world) victimAddress() string {
	server, known := w.s.Cloud.Server(serverOf(w.victim))
	if !known || len(server.FixedIPs) == 0 {
		w.Fatal("the victim's server has no address")
	}
	return server.FixedIPs[0]
}
