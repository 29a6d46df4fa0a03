package openstack

import (
	"testing"

	sim "github.com/drover-project/drover/test/openstack"
)

func TestFailingCredentialsAreReplacedByOtherCredentialsOfTheProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i, _ := b.active(newMachine(t, "a", seedFields()))
	own := seedFields().with("applicationCredentialID", sim.MetaKubeAppCredentialID).with("applicationCredentialSecret", sim.MetaKubeAppCredentialSecret)
	b.synced(newMachine(t, "b", own))
	p := i.connection.attached()
	b.sim.RevokeAppCredential(sim.MetaKubeAppCredentialID)
	b.eventually("lists with the newest credentials fail", func() bool {
		_, failure := p.Listed()
		return failure != nil
	})
	b.eventually("lists are made with the other credentials", func() bool {
		_, failure := p.Listed()
		return failure == nil
	})
}
