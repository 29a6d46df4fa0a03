package openstack

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// renamedAway is the name of the simulated cloud's first project after swapProjects.
const renamedAway = "renamed-away"

// newSwappable returns a bench whose configured user signs in to the cloud's first project by the project's name. The user also has
// access to another project. newSwappable returns the IDs of both projects, too.
func newSwappable(t *testing.T) (b *bench, own, other string) {
	t.Helper()
	b = newBench(t)
	b.sim.AddUser(sim.User{Name: "mover", Password: "mover-secret", Projects: []string{sim.MetaKubeProject, "other"}})
	b.options.Configured.Username, b.options.Configured.Password = "mover", "mover-secret"
	b.restart()
	return b, b.sim.AddProject(sim.MetaKubeProject, ""), b.sim.AddProject("other", "")
}

// swapProjects renames the first project, and gives its former name to the other project.
func (b *bench) swapProjects() {
	b.sim.RenameProject(sim.MetaKubeProject, renamedAway)
	b.sim.RenameProject("other", sim.MetaKubeProject)
}

// callsIn counts the calls that were made with a token for the project with this name.
func (b *bench) callsIn(project string) (n int) {
	for _, call := range b.sim.Calls() {
		if call.Project == project {
			n++
		}
	}
	return n
}

func TestRenewedTokenForAnotherProject(t *testing.T) {
	for name, expire := range map[string]func(*bench){
		"a renewed token that belongs to another project is not used, even after the current token was revoked": func(b *bench) { b.sim.RevokeTokens() },
		"a renewed token that belongs to another project is not used, even after the current token has expired": func(b *bench) { b.clock.Step(55 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			b, own, other := newSwappable(t)
			m := newMachine(t, "a", seedFields())
			_, s := b.active(m)
			b.records(m, s)
			b.swapProjects()
			b.sim.ForgetCalls()
			expire(b)
			b.pass(5 * time.Minute)
			f := b.observe(b.instance(m))
			if f.Gone || f.Server == nil {
				t.Errorf("the server counts as gone: %+v", f)
			}
			_, err := b.make(b.instance(newMachine(t, "new", seedFields())))
			if !fault.Is(err, fault.Auth) || !strings.Contains(err.Error(), own) || !strings.Contains(err.Error(), other) {
				t.Errorf("got %v, want an error that names %s and %s", err, own, other)
			}
			if scope, refused := b.connectionOf(m.UID).session.Known(); scope.ProjectID != own || !fault.Is(refused, fault.Auth) {
				t.Errorf("the log line has the wrong project, want %s: %v", scope.ProjectID, refused)
			}
			leaves(m)
			leaving := b.instance(m)
			_ = leaving.DeleteServer(b.ctx)
			if released, _ := leaving.Release(b.ctx); released.Done {
				t.Error("all resources count as released")
			}
			if n := b.callsIn(sim.MetaKubeProject); n > 0 {
				t.Errorf("%d calls were made in the other project", n)
			}
			if n := b.calls("POST /auth/tokens"); n > int(6*time.Minute/client.SignInAgain) {
				t.Errorf("%d sign-ins", n)
			}
			b.sim.RenameProject(sim.MetaKubeProject, "other")
			b.sim.RenameProject(renamedAway, sim.MetaKubeProject)
			b.vanishes(m)
			b.nothingLeft()
		})
	}
}
