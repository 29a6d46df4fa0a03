package csr

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// withoutServiceCIDRs makes the API server answer like one of a release before Kubernetes 1.33.
func (c *fakeCluster) withoutServiceCIDRs() {
	c.reader = interceptor.NewClient(c.client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*networkingv1.ServiceCIDRList); ok {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}, SearchedVersions: []string{"v1"}}
			}
			return inner.List(ctx, list, opts...)
		},
	})
}

func clusterOf(namespace string, services ...string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
	c.Spec.ClusterNetwork.Services.CIDRBlocks = services
	return c
}

func TestAddressesOfServicesAndTheAPIServerAreRefusedInCertificates(t *testing.T) {
	flag := Reserved{Ranges: []netip.Prefix{netip.MustParsePrefix("10.100.0.0/16")}}
	object := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	server := func(texts ...string) (r Reserved) {
		r.AddServers(texts...)
		return r
	}
	for _, tt := range []struct {
		name     string
		reserved Reserved
		objects  []client.Object
		served   bool
		address  string
		refused  bool
	}{
		{"an address in the range of a ServiceCIDR object is refused (F-2)", Reserved{}, []client.Object{object.DeepCopy()}, true, "10.96.0.9", true},
		{"an address in the Service range that the operator set is refused even when there are ServiceCIDR objects (F-2)", flag, []client.Object{object.DeepCopy()}, true, "10.100.0.9", true},
		{"an address in the Service range of a Cluster object is accepted when ServiceCIDR objects name another range (F-2)", Reserved{}, []client.Object{object.DeepCopy(), clusterOf("ns", "10.98.0.0/16")}, true, "10.98.0.9", false},
		{"an address in the Service range of a Cluster object is refused when the API server lacks the kind ServiceCIDR (F-2)", Reserved{}, []client.Object{clusterOf("ns", "10.98.0.0/16")}, false, "10.98.0.9", true},
		{"an address in the Service range of a Cluster object in another namespace than the Machine's is accepted (F-2)", Reserved{}, []client.Object{clusterOf("other", "10.98.0.0/16")}, false, "10.98.0.9", false},
		{"an address in the Service range that the operator set is refused when the API server lacks the kind ServiceCIDR (F-2)", flag, nil, false, "10.100.0.9", true},
		{"an API server's address is refused when drover knows it as host and port (F-2)", server("192.0.2.4:6443", ""), nil, true, "192.0.2.4", true},
		{"an API server's address is refused when drover knows it as a URL (F-2)", server("https://192.0.2.4:6443"), nil, true, "192.0.2.4", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFakeCluster(t, tt.objects...)
			c.approver.Reserved = tt.reserved
			if !tt.served {
				c.withoutServiceCIDRs()
			}
			r, err := c.approver.reserved(t.Context(), "ns")
			if got := r.refuses(net.ParseIP(tt.address)) != ""; err != nil || got != tt.refused {
				t.Errorf("got %s refused %v and error %v, want %v", tt.address, got, err, tt.refused)
			}
		})
	}
	t.Run("reading the refused addresses fails with an error when a Cluster object's Service range is not a valid CIDR (F-2)", func(t *testing.T) {
		c := newFakeCluster(t, clusterOf("ns", "10.98.0.0/99"))
		if r, err := c.approver.reserved(t.Context(), "ns"); err == nil {
			t.Errorf("got %+v, want an error", r)
		}
	})
	t.Run("an address in the range of a new ServiceCIDR object is refused at most a minute after the object was created (F-2)", func(t *testing.T) {
		c := newFakeCluster(t)
		refused := func() bool {
			r, err := c.approver.reserved(t.Context(), "ns")
			if err != nil {
				t.Fatal(err)
			}
			return r.refuses(net.ParseIP("10.96.0.9")) != ""
		}
		before := refused()
		c.create(object.DeepCopy())
		during := refused()
		c.clock.SetTime(c.clock.Now().Add(networkLife + time.Second))
		if after := refused(); before || during || !after {
			t.Errorf("got refused %v before, %v within the minute and %v after it", before, during, after)
		}
	})
}

func TestCertificatesWithAnAddressOrANameThatNoNodeMayHaveAreRefused(t *testing.T) {
	r := Reserved{Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("192.0.2.1/32")}, Names: []string{"api.example.com"}, Domain: "cluster.local"}
	for address, want := range map[string]string{
		"10.0.0.5": "", "fd00::5": "", "198.51.100.7": "", "10.97.0.1": "",
		"10.96.0.1": "in the Service range 10.96.0.0/16", "::ffff:10.96.0.1": "in the Service range 10.96.0.0/16",
		"192.0.2.1": "an address of the API server",
		"127.0.0.1": "a loopback address", "127.9.9.9": "a loopback address", "::1": "a loopback address", "::ffff:127.0.0.1": "a loopback address",
		"169.254.169.254": "a link-local address", "fe80::1": "a link-local address",
		"0.0.0.0": "the unspecified address", "::": "the unspecified address",
		"224.0.0.1": "a multicast address", "ff02::1": "a multicast address", "ff01::1": "a multicast address",
	} {
		if got := r.refuses(net.ParseIP(address)); got != want {
			t.Errorf("refuses(%s) = %q, want %q", address, got, want)
		}
	}
	if r.refuses(net.IP{1, 2}) == "" {
		t.Error("refuses() accepts two bytes as an address")
	}
	for host, want := range map[string]bool{
		"node-1": false, "node-1.example.com": false, "svc": false, "kubernetes-1": false,
		"kubernetes": true, "kubernetes.default": true, "kubernetes.default.svc": true, "webhook.ns.svc": true, "webhook.ns.svc.cluster.local": true,
		"localhost": true, "a.localhost": true, "api.example.com": true, "API.example.com.": true, "KUBERNETES.default.SVC": true,
	} {
		if got := r.hasName(host); got != want {
			t.Errorf("name %s: got reserved %v, want %v", host, got, want)
		}
	}
}
