package openstack

import (
	"testing"

	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestFailingCredentialsAreReplacedByOtherCredentialsOfTheProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i, _ := b.active(newMachine(t, "a", seedFields()))
	own := seedFields().with("applicationCredentialID", sim.MetaKubeAppCredentialID).with("applicationCredentialSecret", sim.MetaKubeAppCredentialSecret)
	b.synced(newMachine(t, "b", own))
	p := i.connection.attached()
	failing := func() (fails bool) {
		p.With(func(s *state.Project) {
			_, failure := s.Listed()
			fails = failure != nil
		})
		return fails
	}
	b.sim.RevokeAppCredential(sim.MetaKubeAppCredentialID)
	b.eventually("lists with the newest credentials fail", func() bool {
		return failing()
	})
	b.eventually("lists are made with the other credentials", func() bool {
		return !failing()
	})
}
