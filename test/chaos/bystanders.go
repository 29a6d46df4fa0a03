package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sim "github.com/drover-project/drover/test/openstack"
)

// othersNode is somebody else's.
const othersNode = "other"

// bystanders is what belongs to others: as it was when it was placed.
type bystanders struct {
	session *gophercloud.ProviderClient
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
	network := w.find("network", "networks", sim.MetaKubeNetwork)
	pool := w.find("network", "networks", sim.MetaKubePool)
	flavor := w.find("compute", "flavors", sim.MetaKubeFlavor)
	image := w.find("image", "images", sim.MetaKubeImage)
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
	session, err := openstack.NewClient(w.Cloud.AuthURL())
	if err != nil {
		return b, err
	}
	session.HTTPClient.Transport = w.Cloud.RoundTripper()
	err = openstack.Authenticate(w.ctx, session, gophercloud.AuthOptions{
		IdentityEndpoint: w.Cloud.AuthURL(), Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, TenantName: sim.MetaKubeProject,
	})
	if err != nil {
		return b, err
	}
	b.session = session
	w.others.session = session
	for _, f := range foreign(w) {
		if _, err := w.ask("POST", f.path, f.body); err != nil {
			return b, fmt.Errorf("placing a foreign %s: %w", f.key, err)
		}
	}
	if !sleep(w.ctx, 2*bootMargin) {
		return b, w.ctx.Err()
	}
	if b.rows, err = w.inventory(); err != nil {
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
	rows, err := w.inventory()
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

// listings are where each kind of resource is listed.
var listings = []struct{ path, key string }{
	{"compute /servers/detail", "servers"}, {"network /ports", "ports"}, {"network /floatingips", "floatingips"}, {"volume /volumes/detail", "volumes"},
}

// inventory gives what the cloud tells of each resource, by ID.
func (w *World) inventory() (map[string]string, error) {
	out := map[string]string{}
	for _, l := range listings {
		rows, err := w.rows(l.path, l.key)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			raw, err := json.Marshal(row)
			if err != nil {
				return nil, err
			}
			out[fmt.Sprint(row["id"])] = string(raw)
		}
	}
	return out, nil
}

func (w *World) rows(path, key string) ([]map[string]any, error) {
	raw, err := w.ask("GET", path, "")
	if err != nil {
		return nil, err
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	var rows []map[string]any
	return rows, json.Unmarshal(body[key], &rows)
}

// find gives the ID of what bears a name; empty when nothing does, which the cloud will complain about.
func (w *World) find(service, key, name string) string {
	rows, err := w.rows(service+" /"+key, key)
	if err != nil {
		return ""
	}
	for _, row := range rows {
		if row["name"] == name {
			return fmt.Sprint(row["id"])
		}
	}
	return ""
}

// ask makes one call in the name of the project's user, past all turns.
func (w *World) ask(method, path, body string) ([]byte, error) {
	return ask(w.ctx, w.others.session, method, path, body)
}

func ask(ctx context.Context, session *gophercloud.ProviderClient, method, path, body string) ([]byte, error) {
	var service, rest string
	if _, err := fmt.Sscanf(path, "%s %s", &service, &rest); err != nil {
		return nil, err
	}
	service = map[string]string{"compute": "compute", "network": "network", "image": "image", "volume": "volumev3"}[service]
	url, err := session.EndpointLocator(gophercloud.EndpointOpts{Type: service, Availability: gophercloud.AvailabilityPublic, Region: sim.MetaKubeRegion})
	if err != nil {
		return nil, err
	}
	version := map[string]string{"network": "v2.0/", "image": "v2/"}[service]
	url = strings.TrimSuffix(url, "/") + "/" + version + strings.TrimPrefix(rest, "/")
	var out json.RawMessage
	options := &gophercloud.RequestOpts{JSONResponse: &out, OkCodes: []int{200, 201, 202}}
	if body != "" {
		options.JSONBody = json.RawMessage(body)
	}
	resp, err := session.Request(ctx, method, url, options)
	if err != nil {
		return nil, err
	}
	return out, resp.Body.Close()
}
