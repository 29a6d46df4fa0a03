package catalog

import (
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestDefaultSecurityGroup(t *testing.T) {
	t.Run("an administrator's credentials take the group of their own project, not an older one of another (F-14)", func(t *testing.T) {
		b := newBench(t)
		theirs := b.plan(withoutGroups()).SecurityGroups

		b.sim.AddProject("other", sim.MetaKubeDomain)
		b.sim.AddUser(sim.User{Name: "admin", Password: "p", Domain: sim.MetaKubeDomain, Projects: []string{"other"}, Roles: []string{"admin"}})
		admin := b.catalogOf(client.Credentials{
			IdentityEndpoint: b.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: "admin", Password: "p",
			DomainName: sim.MetaKubeDomain, ProjectName: "other",
		})
		own, err := admin.defaultGroup(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if own.ID == theirs[0] {
			t.Errorf("group %s of another project is used", own.ID)
		}
	})
}
