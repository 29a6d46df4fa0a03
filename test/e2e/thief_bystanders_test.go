//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/openstack/member"
)

// Names of Nodes of other users, which are also the names of their servers, and of two objects in kube-system that attempts target.
const (
	controlPlane = otherPrefix + "control-plane"
	byHand       = otherPrefix + "by-hand"
	// edge is a Node without a provider ID and without a server in this cloud.
	edge        = "edge"
	edgeAddress = "10.9.9.9"
	keys        = "keys"
	victimClass = "victim-class"
	// audit is the key of a taint and of a label that an administrator has put on the Node of the attacker, the author of Machines.
	// No kubelet may set that label.
	audit      = "audit"
	auditLabel = "node-restriction.kubernetes.io/" + audit
	// audited is the key under which the state of the taint and of the label is recorded and compared.
	audited = "what an administrator put on the author's Node"
	// nobody is a UID that no Machine has.
	nobody = "11111111-0000-4000-8000-000000000001"
)

// bystanders holds what belongs to other users: the IDs of their resources in the cloud, and the state of everything
// before the attempts.
type bystanders struct {
	session *member.Session
	// controlPlane, byHand, cloned and orphaned are IDs of servers. controlPlane and byHand have a Node each but no
	// Machine. cloned belongs to another cluster. The Machine of orphaned does not exist any more.
	controlPlane, byHand, cloned, orphaned string
	volume, port, floatingIP               string
	was                                    map[string]string
}

// place creates the resources and objects of other users.
func (w *world) place() {
	w.Helper()
	session, err := member.SignIn(w.Context(), w.s.Cloud, nil)
	w.must(err)
	w.others.session = session
	network := session.Find(w.Context(), "network", "networks", openstack.MetaKubeNetwork)
	pool := session.Find(w.Context(), "network", "networks", openstack.MetaKubePool)
	server := func(name, metadata string) string {
		return w.make("compute /servers", "server", fmt.Sprintf(`{"name":%q,"flavorRef":%q,"imageRef":%q,"networks":[{"uuid":%q}],"metadata":%s}`, name,
			session.Find(w.Context(), "compute", "flavors", openstack.MetaKubeFlavor), session.Find(w.Context(), "image", "images", openstack.MetaKubeImage), network, metadata))
	}
	o := &w.others
	o.controlPlane, o.byHand = server(controlPlane, `{}`), server(byHand, `{}`)
	o.cloned = server(otherPrefix+"cloned", `{"machine-uid":"`+nobody+`","drover-cluster-id":"the-other-cluster"}`)
	o.orphaned = server(otherPrefix+"orphaned", `{"machine-uid":"`+nobody+`"}`)
	o.volume = w.make("volume /volumes", "volume", `{"size":10,"name":"data"}`)
	o.port = w.make("network /ports", "port", fmt.Sprintf(`{"network_id":%q,"name":"vip"}`, network))
	o.floatingIP = w.make("network /floatingips", "floatingip", fmt.Sprintf(`{"floating_network_id":%q}`, pool))
	w.make("network /floatingips", "floatingip", fmt.Sprintf(`{"floating_network_id":%q,"description":"drover the-other-cluster %s 0"}`, pool, nobody))
	for _, object := range w.objectsOfOthers() {
		w.must(w.s.Client.Create(w.Context(), object))
	}
}

// make creates a resource in the cloud with the credentials of the cloud's user, and returns its ID.
func (w *world) make(path, key, body string) string {
	w.Helper()
	raw, err := w.others.session.Ask(w.Context(), http.MethodPost, path, `{"`+key+`":`+body+`}`)
	w.must(err)
	var answer map[string]struct{ ID string }
	w.must(json.Unmarshal(raw, &answer))
	return answer[key].ID
}

func (w *world) objectsOfOthers() []client.Object {
	node := func(name, server string, labels map[string]string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec:       corev1.NodeSpec{ProviderID: "openstack:///" + server, Taints: []corev1.Taint{{Key: "dedicated", Value: "others", Effect: corev1.TaintEffectNoSchedule}}},
		}
	}
	pod := func(on string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "on-" + on},
			Spec: corev1.PodSpec{
				NodeName: on, Containers: []corev1.Container{{Name: "c", Image: "example.invalid/c"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}
	}
	bare := node(edge, "", map[string]string{"site": "edge"})
	bare.Spec.ProviderID = ""
	bare.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: edgeAddress}}
	inSystem := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	}
	return []client.Object{
		node(controlPlane, w.others.controlPlane, map[string]string{"node-role.kubernetes.io/control-plane": ""}),
		node(byHand, w.others.byHand, map[string]string{"team": "databases"}), bare,
		pod(controlPlane), pod(byHand), pod(edge), pod(w.victim.ServerName()),
		&corev1.Secret{ObjectMeta: inSystem(keys), StringData: map[string]string{"password": classified, "identityEndpoint": w.s.Cloud.AuthURL(), "userData": classified}},
		&v1alpha1.MachineClass{ObjectMeta: inSystem(victimClass), ProviderSpec: &runtime.RawExtension{Raw: w.base.Spec.Template.Spec.ProviderSpec.Value.Raw}},
	}
}

// auditOwnNode puts a taint and a label on the author's Node, as an administrator would.
func (w *world) auditOwnNode() {
	w.Helper()
	w.kubectl("taint", "node", w.node, audit+"=yes:NoSchedule")
	w.kubectl("label", "node", w.node, auditLabel+"=yes")
}

// remember records the current state of everything that belongs to other users.
func (b *bystanders) remember(w *world) {
	w.Helper()
	eventually(w.T, func(_ context.Context) (string, error) {
		for _, s := range w.s.Cloud.Servers() {
			if s.Status != "ACTIVE" {
				return "server " + s.Name + " to be ACTIVE", nil
			}
		}
		return "", nil
	})
	var err error
	b.was, err = b.look(w.Context(), w)
	w.must(err)
}

// changed returns how the state of everything that belongs to other users differs from the recorded one, or an empty
// text. It ignores objects that were added later.
func (b *bystanders) changed(ctx context.Context, w *world) string {
	now, err := b.look(ctx, w)
	if err != nil {
		return err.Error()
	}
	maps.DeleteFunc(now, func(name, _ string) bool { _, known := b.was[name]; return !known })
	return cmp.Diff(b.was, now)
}

// look returns the state of everything that belongs to other users, by name.
func (b *bystanders) look(ctx context.Context, w *world) (map[string]string, error) {
	out, err := b.session.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(out, func(_, row string) bool {
		return slices.ContainsFunc(w.ownUIDs(), func(uid string) bool { return strings.Contains(row, uid) })
	})
	for _, look := range []func(context.Context, *world, map[string]string) error{b.lookAtNodes, b.lookAtMachines, b.lookAtRest} {
		if err := look(ctx, w, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ownUIDs returns the UIDs of the author's Machines.
func (w *world) ownUIDs() []string {
	uids := []string{string(w.own.UID)}
	for _, m := range w.made {
		uids = append(uids, string(m.UID))
	}
	return uids
}

func (b *bystanders) lookAtNodes(ctx context.Context, w *world, out map[string]string) error {
	var list corev1.NodeList
	if err := w.s.Client.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		n := &list.Items[i]
		// Taints of Kubernetes itself are ignored, because the control plane taints Nodes whose kubelet does not report.
		taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
		if n.Name == w.node {
			out[audited] = fmt.Sprint(slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == audit }), n.Labels[auditLabel])
			continue
		}
		if slices.ContainsFunc(slices.Collect(maps.Values(w.made)), func(m *v1alpha1.Machine) bool { return m.Name == n.Name }) {
			continue
		}
		out["Node "+n.Name] = fmt.Sprint(n.UID, n.DeletionTimestamp, n.Spec.ProviderID, n.Spec.Unschedulable, taints, n.Labels)
	}
	return nil
}

func (b *bystanders) lookAtMachines(ctx context.Context, w *world, out map[string]string) error {
	var machines v1alpha1.MachineList
	if err := w.s.Client.List(ctx, &machines, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return err
	}
	for _, m := range machines.Items {
		out["Machine "+m.Name] = fmt.Sprint(m.UID, m.DeletionTimestamp, m.Finalizers, m.Annotations, len(m.OwnerReferences), ptr.Deref(m.Spec.ProviderID, ""), ptr.Deref(m.Status.NodeRef, corev1.ObjectReference{}).Name)
	}
	var groups v1alpha1.MachineDeploymentList
	if err := w.s.Client.List(ctx, &groups, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return err
	}
	for _, g := range groups.Items {
		out["MachineDeployment "+g.Name] = fmt.Sprint(g.UID, g.DeletionTimestamp, g.Spec.Removals, g.Annotations)
	}
	return nil
}

func (b *bystanders) lookAtRest(ctx context.Context, w *world, out map[string]string) error {
	var pods corev1.PodList
	if err := w.s.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault)); err != nil {
		return err
	}
	for _, p := range pods.Items {
		out["pod "+p.Name] = fmt.Sprint(p.UID, p.DeletionTimestamp)
	}
	for name, o := range map[string]client.Object{keys: &corev1.Secret{}, victimClass: &v1alpha1.MachineClass{}} {
		err := w.s.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, o)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		out[name] = fmt.Sprint(o.GetUID(), o.GetResourceVersion(), o.GetFinalizers())
	}
	return nil
}
