package openstack

import (
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

// vanishes calls the steps of the Machine controller for a Machine that is being deleted, until all its resources are released or
// the Machine may be removed.
func (b *bench) vanishes(m *v1alpha1.Machine) {
	b.t.Helper()
	var last error
	for range 60 {
		b.pass(5 * time.Second)
		i, err := b.cloud.Instance(b.ctx, m)
		if last = err; fault.Is(err, fault.Invalid) {
			return
		}
		if err != nil {
			continue
		}
		f, err := i.Observe(b.ctx)
		if last = err; err != nil || !f.Synced {
			continue
		}
		if f.Server != nil {
			last = i.DeleteServer(b.ctx)
			continue
		}
		var r cloud.Released
		if r, last = i.Release(b.ctx); r.Done {
			return
		}
	}
	b.t.Errorf("not gone after 5 minutes: %v", last)
}

func TestDeletionOfAMachineWhoseCredentialsDoNotWork(t *testing.T) {
	t.Parallel()
	t.Run("releases the Machine's resources in its recorded project when its spec now names another project (F-17)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		b.records(m, s)
		m.Spec.ProviderSpec.Value = providerValue(t, seedFields().with("projectName", "other"))
		leaves(m)
		b.vanishes(m)
		b.nothingLeft()
	})
	t.Run("removes a Machine whose spec names a project that drover may not use, because the Machine never got any resources (F-17)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields().with("projectName", "other"))
		leaves(m)
		b.vanishes(m)
	})
	t.Run("releases the Machine's resources with other credentials for the project when its own credentials are revoked (F-17)", func(t *testing.T) {
		b := newBench(t)
		b.withReader(newReader(t, secretOf("application", map[string]string{
			"identityEndpoint": b.sim.AuthURL(), "applicationCredentialID": sim.MetaKubeAppCredentialID,
			"applicationCredentialSecret": sim.MetaKubeAppCredentialSecret, "region": sim.MetaKubeRegion,
		})))
		b.synced(newMachine(t, "other", seedFields()))
		m := newMachine(t, "a", fromSecret("application"))
		_, s := b.active(m)
		b.records(m, s)
		b.sim.RevokeAppCredential(sim.MetaKubeAppCredentialID)
		b.sim.RevokeTokens()
		leaves(m)
		b.vanishes(m)
		b.nothingLeft()
	})
	t.Run("removes the Machine when its Secret never existed and no known project has a resource of the Machine (F-17)", func(t *testing.T) {
		b := newBench(t)
		b.withReader(newReader(t))
		m := newMachine(t, "a", fromSecret("gone"))
		leaves(m)
		b.vanishes(m)
	})
}

func TestDeletionOfAMachineWhileKeystoneIsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m, _ := b.referenced(t, "a")
	b.active(newMachine(t, "a", seedFields()))
	b.withReader(newReader(t))
	b.stop()
	b.sim.Inject(sim.Fault{Call: "POST /auth/tokens", Status: 503})
	b.start()
	leaves(m)
	t.Run("the Machine stays until drover has listed the configured cloud's servers (F-17)", func(t *testing.T) {
		for range 4 {
			if _, err := b.cloud.Instance(b.ctx, m); err == nil || fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v", err)
			}
			b.pass(startGrace/2 + time.Second)
		}
	})
}
