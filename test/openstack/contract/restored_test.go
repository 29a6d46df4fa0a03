package contract

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	driver "github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// restored checks that a Machine that was restored with a new UID adopts the server that its annotation names, together
// with the server's port and floating IP.
func restored(b *bench) {
	m := b.machine(b.fields(doc{"floatingIpPool": b.pool}))
	d, stop := b.drover(b.credentials)
	i := b.instance(d, m)
	if err := bring(b.Context(), i); err != nil {
		b.Fatal(err)
	}
	id := b.reaches(i, cloud.ServerActive).ID
	address := b.the("/floatingips", "floatingips", "floating_ip_address")
	stop()

	m.UID = uuid.NewUUID()
	m.Annotations = map[string]string{v1alpha1.AnnotationAdopt: id}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).Build()
	d, _ = b.droverWith(driver.Options{Guarded: func() bool { return true }, Options: spec.Options{Configured: b.credentials, Reader: reader}})
	i = b.instance(d, m)
	b.same("server", b.reaches(i, cloud.ServerActive).ID, id)
	b.until("the server has the Machine's owner tag", func() bool {
		return b.user.get(compute, "/servers/"+id).word("server.metadata.machine-uid") == string(m.UID)
	})
	mark := "drover contract " + string(m.UID) + " 0"
	b.same("the port's mark", b.the("/ports?device_id="+id, "ports", "description"), mark)
	b.same("the address's mark", b.the("/floatingips", "floatingips", "description"), mark)
	b.same("the address on the server", b.the("/floatingips?port_id="+b.the("/ports?device_id="+id, "ports", "id"), "floatingips", "floating_ip_address"), address)
	b.has(1, 1, 1)
	b.release(i)
	b.has(0, 0, 0)
}

// the reads a list of Neutron, and returns a field of the only row with drover's owner tag.
func (b *bench) the(path, list, field string) string {
	b.Helper()
	found := ""
	for _, r := range b.want(b.user.get(network, path), http.StatusOK).rows(list) {
		a := answer{body: r}
		if strings.HasPrefix(a.word("description"), "drover contract ") {
			if found != "" {
				b.Errorf("several rows of %s have an owner tag", path)
			}
			found = a.word(field)
		}
	}
	return found
}
