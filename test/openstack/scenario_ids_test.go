package openstack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/drover-project/drover/test/openstack"
)

func TestSimulatedCloudsWithTheSameRandomSourceMakeTheSameIDs(t *testing.T) {
	ids := func(seed byte) string {
		c := openstack.New(openstack.Config{Seed: openstack.SeedMetaKube, Random: rand.NewChaCha8([32]byte{seed})})
		return c.AddProject("another", "Default")
	}
	one, again, other := ids(1), ids(1), ids(2)
	if one != again {
		t.Errorf("the same source gives %s and %s", one, again)
	}
	if one == other {
		t.Errorf("another source gives %s too", other)
	}
}
