package openstack

import (
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestInvalidClusterIDIsRefused(t *testing.T) {
	for _, id := range []string{"", "a b"} {
		if _, err := New(Options{ClusterID: id}); err == nil {
			t.Errorf("cluster ID %q was accepted", id)
		}
	}
}

func TestMetricsCountEveryRequestToOpenStack(t *testing.T) {
	t.Parallel()
	t.Run("counts requests by service, code and node group (CAPI-58)", func(t *testing.T) {
		b := newIdleBench(t)
		registry := prometheus.NewRegistry()
		b.options.Registry = registry
		b.start()
		m := newMachine(t, "a", seedFields())
		m.OwnerReferences = []metav1.OwnerReference{{Name: "workers", Controller: ptr.To(true)}}
		b.active(m)
		var total, tokens float64
		var grouped map[string]float64
		// A list of the background loop can be on its way between the two counts.
		b.eventually("drover and the cloud have counted the same calls", func() bool {
			total, tokens, grouped = countedCalls(t, registry)
			return int(total) == b.calls()
		})
		if tokens != 1 {
			t.Errorf("drover counted %v tokens in %v calls, want 1", tokens, total)
		}
		if grouped["kube-system/workers compute POST"] != 1 || grouped["kube-system/workers network POST"] != 1 || grouped[" identity POST"] != 1 {
			t.Errorf("the server and the port count for the group, and the token for none: %v", grouped)
		}
	})
}

// countedCalls returns the number of calls that the registry's metrics count, how many of them created a token, and the number of
// calls by group, service and verb.
func countedCalls(t *testing.T, registry prometheus.Gatherer) (total, tokens float64, grouped map[string]float64) {
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	grouped = map[string]float64{}
	for _, f := range families {
		if f.GetName() != "drover_openstack_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels, n := labelsOf(m), m.GetCounter().GetValue()
			total += n
			grouped[labels["group"]+" "+labels["service"]+" "+labels["verb"]] += n
			if labels["service"] == "identity" && labels["code"] == "201" {
				tokens += n
			}
		}
	}
	return total, tokens, grouped
}

func labelsOf(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

func TestSignInUsesTheCABundleOfTheCredentialsAndRefusesAnInvalidBundle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	secured := httptest.NewUnstartedServer(b.sim.Handler())
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.StartTLS()
	defer secured.Close()
	c, err := New(Options{ClusterID: "c", AllowedEndpoints: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	creds := b.credentials()
	creds.IdentityEndpoint = secured.URL + "/identity/v3"
	signIn := func(bundle []byte) error {
		creds.CACert = bundle
		conn, err := c.connect(t.Context(), &spec.Access{Credentials: &creds}, nil)
		if err != nil {
			return err
		}
		_, err = conn.session.Scope(t.Context())
		return err
	}
	if err := signIn([]byte("no certificate")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a bundle without a certificate: %v", err)
	}
	if err := signIn(nil); !fault.Is(err, fault.Transient) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the bundle: %v", err)
	}
	if err := signIn(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})); err != nil {
		t.Errorf("with it: %v", err)
	}
}

func TestSpecWithIDsInsteadOfNames(t *testing.T) {
	t.Parallel()
	t.Run("a spec with IDs selects the same resources as a spec with names (MC-42)", func(t *testing.T) {
		b := newBench(t)
		first := seedFields()
		_, s := b.active(newMachine(t, "a", first))
		p := b.connectionOf("uid-a").catalog
		plan, err := p.Resolve(b.ctx, &spec.Spec{
			Flavor: sim.MetaKubeFlavor, Image: sim.MetaKubeImage, Networks: []string{sim.MetaKubeNetwork},
			SecurityGroups: []string{sim.MetaKubeSecurityGroup}, FloatingIPPool: sim.MetaKubePool,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, again := b.active(newMachine(t, "b", seedFields().with("flavor", plan.Flavor.ID).with("image", plan.Image.ID).
			with("network", plan.Ports[0].NetworkID).with("securityGroups", plan.SecurityGroups).with("floatingIpPool", plan.PoolID)))
		one, _ := b.sim.Server(s.ID)
		two, _ := b.sim.Server(again.ID)
		if one.Flavor != two.Flavor || one.Image != two.Image || len(two.Floating) != 1 {
			t.Errorf("MC-42: got %+v", two)
		}
	})
}

func TestServiceCatalogWithoutAVersionInTheComputeURL(t *testing.T) {
	t.Parallel()
	t.Run("drover adds v2.1 to a compute URL without a version (F-27)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.UnversionedCompute = true })
		b.active(newMachine(t, "a", seedFields()))
	})
}
