package bench

import (
	"context"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// cloudUnderTest is a cloud on which the benchmark of scaling runs.
type cloudUnderTest struct {
	credentials                         client.Credentials
	flavor, image, network, group, pool string
	// limit sets how many servers the project may have, until the returned function is called. Nil means that the
	// benchmark cannot change the quota of this cloud.
	limit func(servers int) func()
}

// variables returns the environment variables with which drover signs in. keystone is the URL to use.
func (g cloudUnderTest) variables(keystone string) []string {
	c := g.credentials
	return []string{
		"OS_AUTH_URL=" + keystone, "OS_REGION_NAME=" + c.Region, "OS_USERNAME=" + c.Username, "OS_PASSWORD=" + c.Password,
		"OS_PROJECT_NAME=" + c.ProjectName, "OS_DOMAIN_NAME=" + c.DomainName,
		"OS_USER_DOMAIN_NAME=" + c.UserDomainName, "OS_PROJECT_DOMAIN_NAME=" + c.ProjectDomainName, "OS_IDENTITY_API_VERSION=3",
	}
}

// simulated returns a simulated cloud, over TCP, that is as slow as a real one and handles up to atATime calls of each
// kind concurrently.
func simulated(b *testing.B, atATime int) cloudUnderTest {
	b.Helper()
	cloud := sim.New(sim.Realistic(sim.Config{Seed: wide}, atATime))
	if err := cloud.Start(context.WithoutCancel(b.Context())); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cloud.Close)
	return cloudUnderTest{
		credentials: client.Credentials{
			IdentityEndpoint: cloud.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
			DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
		},
		flavor: sim.MetaKubeFlavor, image: sim.MetaKubeImage, network: wideNetwork, group: sim.MetaKubeSecurityGroup, pool: sim.MetaKubePool,
		limit: func(servers int) func() {
			cloud.SetQuota(sim.MetaKubeProject, sim.Quota{Instances: servers})
			return func() { cloud.SetQuota(sim.MetaKubeProject, sim.Quota{}) }
		},
	}
}
