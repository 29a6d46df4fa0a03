package chaos

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sim "github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/openstack/member"
)

// othersNode is somebody else's.
const othersNode = "other"

// bystanders is what belongs to others: as it was when it was placed.
type bystanders struct {
	session *member.Session
	// ids are all resources in the cloud; rows what the cloud tells of each.
	ids  map[string]bool
	rows map[string]string
	// kube are resource versions of objects in the cluster.
	kube map[string]string
}

func (b *bystanders) has(id string) bool { return b.ids[id] }

// foreign are the resources of others, by the path that makes them. Some look much like drover's: the name of the
// Machine's server, marks of another cluster, a Machine's UID that nobody has.
func foreign(w *World) []struct{ path, key, body string } {
	session := w.others.session
	network := session.Find(w.ctx, "network", "networks", sim.MetaKubeNetwork)
	pool := session.Find(w.ctx, "network", "networks", sim.MetaKubePool)
	flavor := session.Find(w.ctx, "compute", "flavors", sim.MetaKubeFlavor)
	image := session.Find(w.ctx, "image", "images", sim.MetaKubeImage)
	server := func(name, metadata string) string {
		return fmt.Sprintf(`{"server":{"name":%q,"flavorRef":%q,"imageRef":%q,"networks":[{"uuid":%q}],"metadata":%s}}`, name, flavor, image, network, metadata)
	}
	port := func(description string) string {
		return fmt.Sprintf(`{"port":{"network_id":%q,"description":%q,"name":%q}}`, network, description, machineName)
	}
	address := func(description string) string {
		return fmt.Sprintf(`{"floatingip":{"floating_network_id":%q,"description":%q}}`, pool, description)
	}
	return []struct{ path, key, body string }{
		{"compute /servers", "server", server(machineName, `{}`)},
		{"compute /servers", "server", server("other", `{"machine-uid":"11111111-0000-4000-8000-000000000001","drover-cluster-id":"other"}`)},
		{"network /ports", "port", port("")},
		{"network /ports", "port", port("drover other 11111111-0000-4000-8000-000000000001 0")},
		{"network /floatingips", "floatingip", address("")},
		{"network /floatingips", "floatingip", address("drover other 11111111-0000-4000-8000-000000000001 0")},
		{"volume /volumes", "volume", fmt.Sprintf(`{"volume":{"size":10,"name":%q,"volume_type":%q}}`, machineName, sim.MetaKubeVolumeType)},
	}
}

// placeBystanders makes what belongs to others and remembers how it looks.
func (w *World) placeBystanders() (bystanders, error) {
	b := bystanders{ids: nil, kube: map[string]string{}}
	session, err := member.SignIn(w.ctx, w.Cloud, w.Cloud.RoundTripper())
	if err != nil {
		return b, err
	}
	b.session = session
	w.others.session = session
	for _, f := range foreign(w) {
		if _, err := session.Ask(w.ctx, http.MethodPost, f.path, f.body); err != nil {
			return b, fmt.Errorf("placing a foreign %s: %w", f.key, err)
		}
	}
	if !sleep(w.ctx, 2*bootMargin) {
		return b, w.ctx.Err()
	}
	if b.rows, err = session.Inventory(w.ctx); err != nil {
		return b, err
	}
	b.ids = map[string]bool{}
	for id := range b.rows {
		b.ids[id] = true
	}
	for _, o := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: othersNode}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + slices.Min(slices.Collect(maps.Keys(b.ids)))}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef", Namespace: metav1.NamespaceSystem}, Type: "bootstrap.kubernetes.io/token"},
	} {
		if err := w.admin.Create(w.ctx, o); err != nil {
			return b, err
		}
		b.kube[fmt.Sprintf("%T %s", o, o.GetName())] = o.GetResourceVersion()
	}
	return b, nil
}

// changed tells what has become of the others' things; empty: nothing.
func (w *World) changed() (string, error) {
	rows, err := w.others.session.Inventory(w.ctx)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(rows, func(id string, _ string) bool { return !w.others.has(id) })
	kube := map[string]string{}
	for _, o := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: othersNode}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef", Namespace: metav1.NamespaceSystem}},
	} {
		if err := w.admin.Get(w.ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return "", err
		}
		kube[fmt.Sprintf("%T %s", o, o.GetName())] = o.GetResourceVersion()
	}
	return cmp.Diff(w.others.rows, rows) + cmp.Diff(w.others.kube, kube), nil
}
