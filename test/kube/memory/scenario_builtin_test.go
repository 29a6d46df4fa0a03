//go:build cluster

package memory_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var builtins = []operations{
	{"a Node can be created with a status, and later only a write to /status changes the status", func(s *script) {
		n := s.create("a Node", s.object("v1", "Node", s.namespace+"-node", `{"metadata":{"labels":{"a":"b"}},"spec":{"providerID":"openstack:///1","taints":[{"key":"t","effect":"NoSchedule"}]},"status":{"capacity":{"cpu":"2"}}}`))
		s.say("capacity %v", n.Object["status"].(map[string]any)["capacity"])
		s.patch("status by the main path", n, types.MergePatchType, `{"metadata":{"annotations":{"x":"1"}},"status":{"capacity":{"cpu":"3"}}}`)
		s.patchStatus("status by its own", n, types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R"}]}}`)
		s.patch("taints as a whole", n, types.MergePatchType, `{"spec":{"taints":null}}`, client.FieldOwner("drover"))
		s.apply("a label", "alice", s.object("v1", "Node", s.namespace+"-node", `{"metadata":{"labels":{"c":"d"}}}`))
		s.delete("it", n)
	}},
	{"the type of a Secret cannot change, and the data of an immutable Secret cannot change", func(s *script) {
		secret := s.create("a Secret", s.object("v1", "Secret", "s", `{"stringData":{"a":"b"}}`))
		s.patch("its type", secret, types.MergePatchType, `{"type":"other"}`)
		s.patch("more data", secret, types.MergePatchType, `{"stringData":{"c":"d"},"data":{"e":"Zg=="}}`)
		s.patch("it to be immutable", secret, types.MergePatchType, `{"immutable":true}`)
		s.patch("its data", secret, types.MergePatchType, `{"data":{"a":"Zg=="}}`)
		s.patch("a label", secret, types.MergePatchType, `{"metadata":{"labels":{"x":"1"}}}`)
	}},
	{"an update of a Lease without a resource version is refused", func(s *script) {
		lease := s.create("a Lease", s.object("coordination.k8s.io/v1", "Lease", "l", `{"spec":{"holderIdentity":"a"}}`))
		lease.SetResourceVersion("")
		s.update("without a version", lease)
	}},
	{"a request with a valid bootstrap token has the user and the groups of the token", func(s *script) {
		s.token("tokena", time.Hour)
		s.token("tokenb", -time.Hour)
		for _, bearer := range []string{"tokena.0123456789abcdef", "tokena.0123456789abcdee", "tokenb.0123456789abcdef", "nobody.0123456789abcdef"} {
			config := s.anonymous()
			config.BearerToken = bearer
			c, err := client.New(config, client.Options{Mapper: s.client.RESTMapper()})
			if err != nil {
				s.t.Fatal(err)
			}
			request := s.signingRequest(s.namespace + bearer[:6] + bearer[22:])
			if err := c.Create(s.ctx, request); err != nil {
				s.say("%s: %s", bearer, verdict(err))
				continue
			}
			s.say("%s: %s of %v", bearer, request.Spec.Username, request.Spec.Groups)
		}
	}},
	{"a certificate request is approved only through its approval subresource", func(s *script) {
		request := s.signingRequest(s.namespace + "-csr")
		request.Spec.Username = "somebody else"
		s.say("create: %v", s.client.Create(s.ctx, request))
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "R", Message: "m"}}
		s.say("by the main path: %v, %d conditions", s.client.Update(s.ctx, request.DeepCopy()), len(s.conditions(request.Name)))
		s.say("now: %v", s.client.Get(s.ctx, client.ObjectKeyFromObject(request), request))
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "R", Message: "m"}}
		request.Labels = map[string]string{"x": "1"}
		s.say("by its path: %v, %v", s.client.SubResource("approval").Update(s.ctx, request), s.conditions(request.Name))
	}},
	{"an eviction is refused when the pod's disruption budget allows no more, or when the pod has two disruption budgets (F-22)", func(s *script) {
		s.pod("a", "", "Running")
		s.evict("without a budget", "a", "")
		s.get("a", s.object("v1", "Pod", "a", ""))
		s.pod("b", "", "Running")
		s.pod("c", "", "Running")
		budget := s.budget("one")
		s.say("before the budget is counted: %s", s.rawEvict("b"))
		s.count(budget, 1)
		s.evict("with another's UID", "b", "11111111-2222-4333-8444-555555555555")
		s.evict("with none to spare", "b", "")
		s.say("the budget: %v", s.client.Get(s.ctx, client.ObjectKeyFromObject(budget), budget))
		s.count(budget, 1)
		s.evict("with one to spare", "b", "")
		s.evict("with none to spare", "c", "")
		s.pod("d", "", "Pending")
		s.evict("that has not begun", "d", "")
		s.count(s.budget("two"), 1)
		s.evict("with two budgets", "c", "")
		s.say("the answer: %s", s.evictionAnswer("c"))
		s.evict("of what is not there", "nobody", "")
	}},
	{"a deleted pod on a node is terminating during its grace period, and is gone at once with a grace period of 0", func(s *script) {
		s.pod("a", "somewhere", "Running")
		s.delete("it", s.object("v1", "Pod", "a", ""))
		o := &corev1.Pod{}
		err := s.client.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "a"}, o)
		s.say("%v, grace %d, deleting %t", err, *o.DeletionGracePeriodSeconds, o.DeletionTimestamp != nil)
		s.delete("it with less time", s.object("v1", "Pod", "a", ""), client.GracePeriodSeconds(1))
		err = s.client.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "a"}, o)
		s.say("%v, grace %d", err, *o.DeletionGracePeriodSeconds)
		s.delete("it with none", s.object("v1", "Pod", "a", ""), client.GracePeriodSeconds(0))
		s.get("it", s.object("v1", "Pod", "a", ""))
	}},
}

var reads = []operations{
	{"a list can be filtered by labels and fields, is sorted by name, and is returned in pages", func(s *script) {
		for _, name := range []string{"c", "a", "b"} {
			m := s.machine(name)
			m.SetLabels(map[string]string{"n": name, "all": "yes"})
			s.create(name, m)
		}
		gvk := s.machine("").GroupVersionKind()
		s.list("all", gvk)
		s.list("by label", gvk, client.MatchingLabels{"n": "b"})
		s.list("by a label's presence", gvk, client.HasLabels{"all"})
		s.list("by name", gvk, client.MatchingFields{"metadata.name": "c"})
		s.list("by a field that cannot be chosen by", gvk, client.MatchingFields{"spec.name": "c"})
		s.list("a page", gvk, client.Limit(2))
		s.list("none", gvk, client.MatchingLabels{"n": "z"})
	}},
	{"a request for the metadata of objects returns only their metadata", func(s *script) {
		s.create("one", s.machine("a"))
		s.create("another", s.machine("b"))
		s.metadata("of one", s.machine("a"))
		s.metadata("of none", s.machine("z"))
		s.metadataList("of all", s.machine("").GroupVersionKind())
		s.metadataList("of one", s.machine("").GroupVersionKind(), client.MatchingFields{"metadata.name": "b"})
	}},
	{"a list of pods can be filtered by their node", func(s *script) {
		s.pod("a", "one", "Running")
		s.pod("b", "two", "Running")
		s.list("of one node", corev1.SchemeGroupVersion.WithKind("Pod"), client.MatchingFields{"spec.nodeName": "one"})
		for _, name := range []string{"a", "b"} {
			s.delete(name, s.object("v1", "Pod", name, ""), client.GracePeriodSeconds(0))
		}
	}},
	{"a watch with a selector reports an object as added once it matches, and as deleted once it no longer matches", func(s *script) {
		before := s.create("one that exists before", s.machine("before"))
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(before.GroupVersionKind())
		w, err := s.client.Watch(s.ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"in": "yes"},
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: before.GetResourceVersion()}})
		if err != nil {
			s.t.Fatal(err)
		}
		defer w.Stop()
		s.create("one out of sight", s.machine("out"))
		m := s.create("one", func() *unstructured.Unstructured {
			o := s.machine("m")
			o.SetLabels(map[string]string{"in": "yes"})
			return o
		}())
		s.patch("a label", m, types.MergePatchType, `{"metadata":{"labels":{"x":"1"}}}`)
		s.patch("it out of sight", m, types.MergePatchType, `{"metadata":{"labels":{"in":"no"}}}`)
		s.patch("it back", m, types.MergePatchType, `{"metadata":{"labels":{"in":"yes"}}}`)
		s.delete("it", m)
		s.watched(w, 5)
	}},
	{"a watch with sendInitialEvents begins with the existing objects", func(s *script) {
		s.create("one", s.machine("a"))
		s.create("another", s.machine("b"))
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(s.machine("").GroupVersionKind())
		initial := true
		w, err := s.client.Watch(s.ctx, list, client.InNamespace(s.namespace), &client.ListOptions{Raw: &metav1.ListOptions{
			SendInitialEvents: &initial, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}})
		if err != nil {
			s.t.Fatal(err)
		}
		defer w.Stop()
		s.watched(w, 3)
	}},
}

// The cases use owners and dependents of built-in kinds, because the real garbage collector discovers other kinds only
// half a minute after its start.
var collections = []operations{
	{"in background deletion, dependents are deleted after their owner", func(s *script) {
		owner := s.create("an owner", s.configMap("s", ""))
		child := s.create("its dependent", s.owned("child", false, owner))
		grandchild := s.create("its dependent's", s.owned("grandchild", false, child))
		s.delete("the owner", owner)
		s.eventually("the dependent goes", child, gone)
		s.eventually("what was the dependent's goes", grandchild, gone)
	}},
	{"in foreground deletion, dependents are deleted before their owner", func(s *script) {
		owner := s.create("an owner", s.configMap("s", ""))
		child := s.owned("child", true, owner)
		child.SetFinalizers([]string{"example.org/hold"})
		s.create("its dependent", child)
		s.delete("the owner", owner, client.PropagationPolicy(metav1.DeletePropagationForeground))
		s.eventually("the dependent is going", child, func(o *unstructured.Unstructured, there bool) bool { return there && o.GetDeletionTimestamp() != nil })
		s.get("the owner", owner)
		s.say("released: %v", client.IgnoreNotFound(s.client.Patch(s.ctx, child.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		s.eventually("the dependent goes", child, gone)
		s.eventually("the owner goes", owner, gone)
	}},
	{"a dependent that is created during the foreground deletion of its owner is also deleted", func(s *script) {
		owner := s.create("an owner", s.configMap("s", ""))
		child := s.owned("child", true, owner)
		child.SetFinalizers([]string{"example.org/hold"})
		s.create("its dependent", child)
		s.delete("the owner", owner, client.PropagationPolicy(metav1.DeletePropagationForeground))
		s.eventually("the dependent is going", child, func(o *unstructured.Unstructured, there bool) bool { return there && o.GetDeletionTimestamp() != nil })
		late := s.create("another", s.owned("late", true, owner))
		s.collected()
		s.get("the one born late", late)
		s.say("released: %v", client.IgnoreNotFound(s.client.Patch(s.ctx, child.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		s.eventually("the one born late goes", late, gone)
		s.eventually("the owner goes", owner, gone)
	}},
	{"dependents stay and lose their owner reference when the owner is deleted with the policy Orphan", func(s *script) {
		owner := s.create("an owner", s.configMap("s", ""))
		child := s.create("its dependent", s.owned("child", false, owner))
		s.delete("the owner", owner, client.PropagationPolicy(metav1.DeletePropagationOrphan))
		s.eventually("the owner goes", owner, gone)
		s.eventually("the dependent has no owner", child, func(o *unstructured.Unstructured, there bool) bool { return there && len(o.GetOwnerReferences()) == 0 })
	}},
	{"a dependent stays while one of its two owners exists", func(s *script) {
		one, two := s.create("an owner", s.configMap("one", "")), s.create("another", s.configMap("two", ""))
		child := s.owned("child", false, one, two)
		s.create("their dependent", child)
		s.delete("the first", one)
		s.eventually("the dependent keeps the second", child, func(o *unstructured.Unstructured, there bool) bool { return there && len(o.GetOwnerReferences()) == 1 })
		s.delete("the second", two)
		s.eventually("the dependent goes", child, gone)
	}},
	{"the garbage collector deletes an object whose owner does not exist", func(s *script) {
		owner := s.configMap("never", "")
		owner.SetUID("11111111-2222-4333-8444-555555555555")
		s.eventually("the dependent goes", s.create("one of nobody", s.owned("child", false, owner)), gone)
	}},
}

func (s *script) owned(name string, blocks bool, owners ...*unstructured.Unstructured) *unstructured.Unstructured {
	m := s.configMap(name, "")
	var refs []metav1.OwnerReference
	for _, o := range owners {
		refs = append(refs, metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID(), BlockOwnerDeletion: &blocks})
	}
	m.SetOwnerReferences(refs)
	return m
}

// collected waits until the garbage collector has checked all objects that exist now: it creates an object whose owner
// does not exist, and waits until the collector has deleted this object.
func (s *script) collected() {
	owner := s.configMap("never", "")
	owner.SetUID("11111111-2222-4333-8444-555555555555")
	stray := s.owned("stray", false, owner)
	if err := s.client.Create(s.ctx, stray); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("what was born after it goes", stray, gone)
}

// anonymous returns a client configuration without a user.
func (s *script) anonymous() *rest.Config {
	config := rest.CopyConfig(s.config)
	config.CertData, config.KeyData = nil, nil
	if s.nobody != nil {
		config.Transport = s.nobody
	}
	return config
}

func (s *script) token(id string, life time.Duration) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:drover", "expiration": time.Now().Add(life).UTC().Format(time.RFC3339),
		},
	}
	if err := s.client.Create(s.ctx, secret); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) signingRequest(name string) *certificatesv1.CertificateSigningRequest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	pem, err := cert.MakeCSR(key, &pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

func (s *script) conditions(name string) []string {
	var o certificatesv1.CertificateSigningRequest
	if err := s.client.Get(s.ctx, client.ObjectKey{Name: name}, &o); err != nil {
		s.t.Fatal(err)
	}
	out := []string{o.Labels["x"]}
	for _, c := range o.Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return out[1:]
}

// pod creates a pod in a phase. An empty node means no node.
func (s *script) pod(name, node string, phase corev1.PodPhase) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(false)},
	}
	if err := s.client.Create(s.ctx, p); err != nil {
		s.t.Fatal(err)
	}
	s.say("pod %s is born %s", name, p.Status.Phase)
	p.Status.Phase = phase
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := s.client.Status().Update(s.ctx, p); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) budget(name string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
	}
	if err := s.client.Create(s.ctx, b); err != nil {
		s.t.Fatal(err)
	}
	return b
}

// count sets how many disruptions a PodDisruptionBudget allows, as the disruption controller does.
func (s *script) count(b *policyv1.PodDisruptionBudget, allowed int32) {
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, DesiredHealthy: 1, CurrentHealthy: 2, ExpectedPods: 2}
	if err := s.client.Status().Update(s.ctx, b); err != nil {
		s.t.Fatal(err)
	}
}

// watched records the next n events of a watch.
func (s *script) watched(w watch.Interface, n int) {
	for range n {
		select {
		case e := <-w.ResultChan():
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				s.say("event %s %T", e.Type, e.Object)
				continue
			}
			s.say("event %s %s, labels %v, initial events end %q", e.Type, o.GetName(), o.GetLabels(), o.GetAnnotations()[metav1.InitialEventsAnnotationKey])
		case <-time.After(20 * time.Second):
			s.say("no event within 20 s")
			return
		}
	}
}
