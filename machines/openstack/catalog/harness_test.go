package catalog

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

// bench connects a Catalog to a simulated cloud. Both use a fake clock that the test advances.
type bench struct {
	*Catalog
	t     *testing.T
	sim   *sim.Cloud
	clock *clocktesting.FakeClock
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, clock: clocktesting.NewFakeClock(time.Now())}
	b.sim = sim.New(sim.Config{Clock: b.clock, Seed: sim.SeedMetaKube})
	if err := b.sim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.sim.Close)
	b.Catalog = b.catalogOf(client.Credentials{
		IdentityEndpoint: b.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
	})
	return b
}

// catalogOf returns a Catalog that signs in to the simulated cloud with these credentials.
func (b *bench) catalogOf(credentials client.Credentials) *Catalog {
	b.t.Helper()
	calls, err := client.New(client.Options{Clock: b.clock, Configured: b.sim.AuthURL()})
	if err != nil {
		b.t.Fatal(err)
	}
	session, err := calls.Session(credentials)
	if err != nil {
		b.t.Fatal(err)
	}
	return New(session, b.clock, "cluster-1")
}

// withoutGroups returns a spec without security groups, so that drover uses its default security group.
func withoutGroups() *spec.Spec {
	s := seedSpec()
	s.SecurityGroups = nil
	return s
}

// plan returns the IDs of the resources that the spec names, and fails the test on an error.
func (b *bench) plan(s *spec.Spec) *Plan {
	b.t.Helper()
	p, err := b.Resolve(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// seedSpec returns a spec that names resources of the simulated cloud.
func seedSpec() *spec.Spec {
	return &spec.Spec{
		Flavor: sim.MetaKubeFlavor, Image: sim.MetaKubeImage, AvailabilityZone: sim.MetaKubeZone,
		Networks: []string{sim.MetaKubeNetwork}, Subnet: sim.MetaKubeSubnet, SecurityGroups: []string{sim.MetaKubeSecurityGroup},
		FloatingIPPool: sim.MetaKubePool, ServerGroup: sim.MetaKubeServerGroup,
	}
}
