package world

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/schedule"
	sim "github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/openstack/member"
)

// unrelatedNode is the name of a Node without a Machine.
const unrelatedNode = "other"

// unrelated holds the resources that drover must not touch, in the state in which they were created.
type unrelated struct {
	session *member.Session
	// ids holds the IDs of all unrelated cloud resources. rows holds, by ID, each resource as the cloud returned it.
	ids  map[string]bool
	rows map[string]string
	// kube holds the resource versions of unrelated objects in the cluster.
	kube map[string]string
}

func (u *unrelated) has(id string) bool { return u.ids[id] }

// unrelatedResources returns unrelated cloud resources and the path to create each. Some resemble drover's own: one has
// the name of the Machine's server, some have the owner tag of another cluster, and some have the UID of a Machine that
// does not exist.
func unrelatedResources(w *World) []struct{ path, key, body string } {
	session := w.others.session
	network := session.Find(w.Context, "network", "networks", sim.MetaKubeNetwork)
	pool := session.Find(w.Context, "network", "networks", sim.MetaKubePool)
	flavor := session.Find(w.Context, "compute", "flavors", sim.MetaKubeFlavor)
	image := session.Find(w.Context, "image", "images", sim.MetaKubeImage)
	server := func(name, metadata string) string {
		return fmt.Sprintf(`{"server":{"name":%q,"flavorRef":%q,"imageRef":%q,"networks":[{"uuid":%q}],"metadata":%s}}`, name, flavor, image, network, metadata)
	}
	port := func(description string) string {
		return fmt.Sprintf(`{"port":{"network_id":%q,"description":%q,"name":%q}}`, network, description, MachineName)
	}
	address := func(description string) string {
		return fmt.Sprintf(`{"floatingip":{"floating_network_id":%q,"description":%q}}`, pool, description)
	}
	return []struct{ path, key, body string }{
		{"compute /servers", "server", server(MachineName, `{}`)},
		{"compute /servers", "server", server("other", `{"machine-uid":"11111111-0000-4000-8000-000000000001","drover-cluster-id":"other"}`)},
		{"network /ports", "port", port("")},
		{"network /ports", "port", port("drover other 11111111-0000-4000-8000-000000000001 0")},
		{"network /floatingips", "floatingip", address("")},
		{"network /floatingips", "floatingip", address("drover other 11111111-0000-4000-8000-000000000001 0")},
		{"volume /volumes", "volume", fmt.Sprintf(`{"volume":{"size":10,"name":%q,"volume_type":%q}}`, MachineName, sim.MetaKubeVolumeType)},
	}
}

// placeUnrelated creates the unrelated resources and records their state.
func placeUnrelated(w *World) (unrelated, error) {
	u := unrelated{ids: nil, kube: map[string]string{}}
	session, err := member.SignIn(w.Context, w.Cloud, w.Cloud.RoundTripper())
	if err != nil {
		return u, err
	}
	u.session = session
	w.others.session = session
	for _, f := range unrelatedResources(w) {
		if _, err := session.Ask(w.Context, http.MethodPost, f.path, f.body); err != nil {
			return u, fmt.Errorf("creating an unrelated %s: %w", f.key, err)
		}
	}
	if !schedule.Sleep(w.Context, 2*BootMargin) {
		return u, w.Context.Err()
	}
	if u.rows, err = session.Inventory(w.Context); err != nil {
		return u, err
	}
	u.ids = map[string]bool{}
	for id := range u.rows {
		u.ids[id] = true
	}
	// The orphan collector marks a Node without a Machine by this annotation. The Node has it already, so drover has no reason to
	// write to the Node.
	nobodys := map[string]string{v1alpha1.AnnotationUnmanaged: "true"}
	for _, o := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unrelatedNode, Annotations: nobodys}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + slices.Min(slices.Collect(maps.Keys(u.ids)))}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef", Namespace: metav1.NamespaceSystem}, Type: "bootstrap.kubernetes.io/token"},
	} {
		if err := w.Admin.Create(w.Context, o); err != nil {
			return u, err
		}
		u.kube[fmt.Sprintf("%T %s", o, o.GetName())] = o.GetResourceVersion()
	}
	return u, nil
}

// changed returns how the unrelated resources differ from their recorded state, or an empty text if they do not differ.
func (w *World) changed() (string, error) {
	rows, err := w.others.session.Inventory(w.Context)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(rows, func(id string, _ string) bool { return !w.others.has(id) })
	kube := map[string]string{}
	for _, o := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unrelatedNode}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef", Namespace: metav1.NamespaceSystem}},
	} {
		if err := w.Admin.Get(w.Context, client.ObjectKeyFromObject(o), o); err != nil {
			return "", err
		}
		kube[fmt.Sprintf("%T %s", o, o.GetName())] = o.GetResourceVersion()
	}
	return cmp.Diff(w.others.rows, rows) + cmp.Diff(w.others.kube, kube), nil
}
