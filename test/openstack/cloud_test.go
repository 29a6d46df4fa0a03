package openstack_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/test/openstack"
)

// clients holds gophercloud clients of the services, signed in as the user that SeedMetaKube creates.
type clients struct {
	provider                        *gophercloud.ProviderClient
	compute, network, image, volume *gophercloud.ServiceClient
}

// known holds the IDs of resources that SeedMetaKube creates and that most tests need.
type known struct{ flavor, image, network string }

func password(cloud *openstack.Cloud) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{
		IdentityEndpoint: cloud.AuthURL(), Username: openstack.MetaKubeUser, Password: openstack.MetaKubePassword,
		DomainName: openstack.MetaKubeDomain, TenantName: openstack.MetaKubeProject, AllowReauth: true,
	}
}

// start starts a simulated cloud that listens on TCP. The cloud has the contents of SeedMetaKube, unless cfg has a Seed
// of its own.
func start(t *testing.T, cfg openstack.Config) *openstack.Cloud {
	t.Helper()
	if cfg.Seed == nil {
		cfg.Seed = openstack.SeedMetaKube
	}
	cloud := openstack.New(cfg)
	if err := cloud.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	return cloud
}

// login signs in by password. A nil transport means TCP.
func login(t testing.TB, cloud *openstack.Cloud, transport http.RoundTripper) clients {
	t.Helper()
	return loginAs(t, password(cloud), transport)
}

func loginAs(t testing.TB, o gophercloud.AuthOptions, transport http.RoundTripper) clients {
	t.Helper()
	p, err := gopher.NewClient(o.IdentityEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	p.HTTPClient = http.Client{Transport: transport}
	if err := gopher.Authenticate(t.Context(), p, o); err != nil {
		t.Fatalf("logging in: %v", err)
	}
	eo := gophercloud.EndpointOpts{Region: openstack.MetaKubeRegion}
	out := clients{provider: p}
	for _, s := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&out.compute, gopher.NewComputeV2}, {&out.network, gopher.NewNetworkV2}, {&out.image, gopher.NewImageV2}, {&out.volume, gopher.NewBlockStorageV3},
	} {
		if *s.to, err = s.make(p, eo); err != nil {
			t.Fatalf("finding an endpoint: %v", err)
		}
	}
	out.compute.Microversion = "2.93"
	return out
}

func (c clients) known(t testing.TB) known {
	t.Helper()
	var out known
	for _, f := range extract(t, flavors.ListDetail(c.compute, nil).AllPages, flavors.ExtractFlavors) {
		if f.Name == openstack.MetaKubeFlavor {
			out.flavor = f.ID
		}
	}
	out.image = extract(t, images.List(c.image, images.ListOpts{Name: openstack.MetaKubeImage}).AllPages, images.ExtractImages)[0].ID
	out.network = extract(t, networks.List(c.network, networks.ListOpts{Name: openstack.MetaKubeNetwork}).AllPages, networks.ExtractNetworks)[0].ID
	return out
}

// extract returns the items on all pages of a list.
func extract[P, T any](t testing.TB, pages func(context.Context) (P, error), read func(P) ([]T, error)) []T {
	t.Helper()
	p, err := pages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := read(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// port creates a port in the seed's subnet.
func (c clients) port(t *testing.T, k known, description string) *ports.Port {
	t.Helper()
	p, err := ports.Create(t.Context(), c.network, ports.CreateOpts{
		NetworkID: k.network, Name: description, Description: description, FixedIPs: []ports.IP{{SubnetID: openstack.MetaKubeSubnet}},
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (k known) server(name, portID string) servers.CreateOpts {
	o := servers.CreateOpts{
		Name: name, FlavorRef: k.flavor, ImageRef: k.image, AvailabilityZone: openstack.MetaKubeZone,
		Metadata: map[string]string{"machine-uid": "uid-" + name}, UserData: []byte("#cloud-config\n"),
		Networks: []servers.Network{{UUID: k.network}},
	}
	if portID != "" {
		o.Networks = []servers.Network{{Port: portID}}
	}
	return o
}

func (c clients) boot(t testing.TB, o servers.CreateOptsBuilder, hints servers.SchedulerHintOptsBuilder) *servers.Server {
	t.Helper()
	s, err := servers.Create(t.Context(), c.compute, o, hints).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c clients) get(t *testing.T, id string) *servers.Server {
	t.Helper()
	s, err := servers.Get(t.Context(), c.compute, id).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually waits until the function holds returns true. Tests use it for changes that the cloud makes after it has
// answered a call.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("never came: %s", what)
	}
}

// refused fails the test unless the error is an answer of the cloud with the status code.
func refused(t *testing.T, err error, status int) string {
	t.Helper()
	if !gophercloud.ResponseCodeIs(err, status) {
		t.Fatalf("got %v, want status %d", err, status)
	}
	return err.Error()
}
