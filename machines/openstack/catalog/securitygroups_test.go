package catalog

import (
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestDefaultSecurityGroup(t *testing.T) {
	t.Run("an administrator's credentials show all projects' groups, but the default group of the credentials' project is used (F-14)", func(t *testing.T) {
		b := newBench(t)
		theirs := b.plan(withoutGroups()).SecurityGroups

		own, err := b.adminOf("other").defaultGroup(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if own.ID == theirs[0] {
			t.Errorf("group %s of another project is used", own.ID)
		}
	})
	t.Run("a project uses its own default group even after a Machine has asked for the default group of another project (F-14)", func(t *testing.T) {
		b := newBench(t)
		theirs := b.plan(withoutGroups()).SecurityGroups
		admin := b.adminOf("other")
		named, err := admin.securityGroup(t.Context(), theirs[0])
		if err != nil || named.ID != theirs[0] {
			t.Fatalf("got group %q, error %v; want %s", named.ID, err, theirs[0])
		}
		if own, err := admin.defaultGroup(t.Context()); err != nil || own.ID == theirs[0] {
			t.Errorf("got group %q, error %v; want one of the own project", own.ID, err)
		}
	})
}

// adminOf returns a catalog that uses an administrator's credentials in a new project.
func (b *bench) adminOf(project string) *Catalog {
	b.t.Helper()
	b.sim.AddProject(project, sim.MetaKubeDomain)
	b.sim.AddUser(sim.User{Name: "admin", Password: "p", Domain: sim.MetaKubeDomain, Projects: []string{project}, Roles: []string{"admin"}})
	return b.catalogOf(b.credentials("admin", project))
}

// credentials returns the credentials of a user with the password p.
func (b *bench) credentials(user, project string) client.Credentials {
	return client.Credentials{
		IdentityEndpoint: b.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: user, Password: "p",
		DomainName: sim.MetaKubeDomain, ProjectName: project,
	}
}
