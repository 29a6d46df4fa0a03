//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	// tenant is the author's namespace. The victims are in kube-system.
	tenant = "tenant"
	// ownGroup is the author's deployment of one Machine. The kubelet of its Node is the compromised one.
	ownGroup = "mine"
	// otherPrefix is the prefix of the names of servers that no Machine has. No kubelet runs on these servers.
	otherPrefix = "other-"
	// classified is the secret value of a Secret in kube-system.
	classified = "classified-77d1"
)

// world is a cluster with attackers, and with objects of other users.
type world struct {
	herd
	// guarded reports whether the admission policies are in force.
	guarded bool
	enemy   *enemy
	// author has every right on drover's kinds in the namespace tenant, and no other right.
	author client.Client
	// kubelet is a client with the identity of the author's own Node.
	kubelet client.Client
	// node is the name of a Node that belongs to the author (the attacker), and own is the Machine of that Node.
	node string
	own  v1alpha1.Machine
	// victim is a Machine of the other group. Its Node has the name of its server.
	victim v1alpha1.Machine
	others bystanders
	base   *v1alpha1.MachineDeployment

	// made holds the Machines that the author has created, by name. A Machine's name contains the key of its attempt.
	made map[string]*v1alpha1.Machine
	// forged holds the names of the certificate requests that must not be approved.
	forged map[string]bool
}

// newWorld starts a sandbox, and creates all objects of the attackers and of other users. If guarded is false, it
// deletes the admission policies and restarts drover.
func newWorld(t *testing.T, guarded bool) *world {
	t.Helper()
	e := newEnemy(t)
	h := newHerd(t, func(o *sandbox.Options) {
		o.DroverFlags = []string{"--allowed-endpoints=" + e.allowed()}
		o.Boots = func(s openstack.Server) bool { return !strings.HasPrefix(s.Name, otherPrefix) }
	})
	d, err := scenario.NewDemo(h.s)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{herd: h, guarded: guarded, enemy: e, base: d.Group, made: map[string]*v1alpha1.Machine{}, forged: map[string]bool{}}
	w.victim = w.membersOf(metav1.NamespaceSystem)[0]
	w.place()
	w.admitAuthor()
	w.settle()
	if !guarded {
		w.withoutPolicies()
	}
	return w
}

// in returns the world for use inside a subtest.
func (w *world) in(t *testing.T) *world {
	inside := *w
	inside.herd = w.herd.in(t)
	return &inside
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) membersOf(namespace string) []v1alpha1.Machine {
	w.Helper()
	var list v1alpha1.MachineList
	w.must(w.s.Client.List(w.Context(), &list, client.InNamespace(namespace)))
	if len(list.Items) == 0 {
		w.Fatalf("there is no Machine in namespace %s", namespace)
	}
	return list.Items
}

// admitAuthor creates the namespace of the author, his rights, and his group.
func (w *world) admitAuthor() {
	w.Helper()
	meta := metav1.ObjectMeta{Namespace: tenant, Name: "author"}
	account, _, _ := strings.Cut(v1alpha1.DefaultServiceAccount, ":")
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Verbs: []string{"*"}, Resources: []string{
			"clusters", "clusters/status", "machineclasses", "machines", "machinesets", "machinesets/status", "machinesets/scale",
			"machinedeployments", "machinedeployments/status", "machinedeployments/scale",
		}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: meta.Name}},
		},
		// drover may read the Secrets of the namespace, as docs/openstack.md says.
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: v1alpha1.RoleReferences},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.RoleReferences},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account, Name: account}},
		},
	} {
		w.must(w.s.Client.Create(w.Context(), o))
	}
	w.author = w.as(meta.Name)
	eventually(w.T, func(ctx context.Context) (string, error) {
		if err := w.author.List(ctx, &v1alpha1.MachineList{}, client.InNamespace(tenant)); err != nil {
			return "the author's rights: " + err.Error(), nil
		}
		return "", nil
	})
	group := w.base.DeepCopy()
	group.Namespace, group.Name = tenant, ownGroup
	group.Spec.Replicas = ptr.To[int32](1)
	group.Spec.Selector.MatchLabels = map[string]string{"group": ownGroup}
	group.Spec.Template.Metadata.Labels = group.Spec.Selector.MatchLabels
	w.must(w.author.Create(w.Context(), group))
}

// as returns a client with the identity of a user.
func (w *world) as(user string, groups ...string) client.Client {
	w.Helper()
	config, err := w.s.Cluster.ConfigForUser(user, groups...)
	w.must(err)
	c, err := client.New(config, client.Options{Scheme: sandbox.Scheme()})
	w.must(err)
	return c
}

// settle creates the Machines that attempts need, and waits until every Machine has a usable Node.
func (w *world) settle() {
	w.Helper()
	for _, a := range attempts() {
		if a.target {
			w.must(w.machine(a.key()+"-target", nil))
		}
	}
	eventually(w.T, func(ctx context.Context) (string, error) {
		var list v1alpha1.MachineList
		if err := w.s.Client.List(ctx, &list); err != nil {
			return "", err
		}
		if len(list.Items) != 3+len(w.made) {
			return fmt.Sprintf("%d Machines; there are %d", 3+len(w.made), len(list.Items)), nil
		}
		for i := range list.Items {
			if missing, err := w.isUsable(ctx, &list.Items[i]); missing != "" || err != nil {
				return missing, err
			}
		}
		return "", nil
	})
	for _, m := range w.membersOf(tenant) {
		if m.Labels["group"] == ownGroup {
			w.own, w.node = m, m.ServerName()
		}
		if made := w.made[m.Name]; made != nil {
			m.DeepCopyInto(made)
		}
	}
	w.kubelet = w.as("system:node:"+w.node, "system:nodes")
	w.auditOwnNode()
	w.others.remember(w)
}

// isUsable returns an empty text when a Machine's Node is usable, and otherwise a text that names the Machine.
func (w *world) isUsable(ctx context.Context, m *v1alpha1.Machine) (string, error) {
	var n corev1.Node
	err := w.s.Client.Get(ctx, client.ObjectKey{Name: m.ServerName()}, &n)
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	if err != nil || m.Status.NodeRef == nil || !sandbox.UsableNode(&n) {
		return "a usable Node for Machine " + m.Namespace + "/" + m.Name, nil
	}
	return "", nil
}

// withoutPolicies deletes all admission policies and restarts drover, so that drover runs without policies from its start.
func (w *world) withoutPolicies() {
	w.Helper()
	w.s.StopDrover(0)
	policies, err := deploy.Objects("policies")
	w.must(err)
	for _, o := range policies {
		w.must(client.IgnoreNotFound(w.s.Client.Delete(w.Context(), o)))
	}
	// The API server updates its cache of policies later, so wait until dry runs of forbidden writes succeed.
	eventually(w.T, func(ctx context.Context) (string, error) {
		m := w.plain("probe")
		m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
		group := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: ownGroup}}
		err := w.author.Create(ctx, m, client.DryRunAll)
		if err == nil {
			err = w.author.Patch(ctx, group, merge(`{"spec":{"placeholderSeries":7}}`), client.DryRunAll)
		}
		if err != nil {
			return "the policies to be gone: " + err.Error(), nil
		}
		return "", nil
	})
	w.restarts()
}

func merge(body string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(body))
}

// plain returns a valid Machine of the author's.
func (w *world) plain(name string) *v1alpha1.Machine {
	m := scenario.Single(w.base, name)
	m.Namespace = tenant
	return m
}

// machine creates a Machine as the author, after change has changed it.
func (w *world) machine(name string, change func(*v1alpha1.Machine)) error {
	m := w.plain(name)
	if change != nil {
		change(m)
	}
	if err := w.author.Create(w.Context(), m); err != nil {
		return err
	}
	w.made[name] = m
	return nil
}

// patch patches an object in the author's namespace, with the author's credentials.
func (w *world) patch(o client.Object, body string, subresource ...string) error {
	o.SetNamespace(tenant)
	for range subresource {
		return w.author.Status().Patch(w.Context(), o, merge(body))
	}
	return w.author.Patch(w.Context(), o, merge(body))
}

func (w *world) group() *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: ownGroup}}
}

// ownSet returns the set of the author's group.
func (w *world) ownSet() *v1alpha1.MachineSet {
	w.Helper()
	var sets v1alpha1.MachineSetList
	w.must(w.s.Client.List(w.Context(), &sets, client.InNamespace(tenant)))
	i := slices.IndexFunc(sets.Items, func(s v1alpha1.MachineSet) bool { return strings.HasPrefix(s.Name, ownGroup+"-") })
	if i < 0 {
		w.Fatal("the author's group has no set")
	}
	return &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: sets.Items[i].Name}}
}

// target returns the Machine that settle has created for an attempt.
func (w *world) target(a attempt) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: a.key() + "-target"}}
}

// cloudSpec sets fields of a Machine's cloudProviderSpec. A value of nil removes the field.
func cloudSpec(m *v1alpha1.MachineSpec, changes map[string]any) {
	changed, err := scenario.ChangedSpec(m.ProviderSpec.Value.Raw, func(cloud map[string]any) {
		for field, value := range changes {
			cloud[field] = value
			if value == nil {
				delete(cloud, field)
			}
		}
	})
	if err != nil {
		panic(err)
	}
	m.ProviderSpec.Value.Raw = changed
}
