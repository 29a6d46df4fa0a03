package openstack

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestWhatACatalogLeavesOut(t *testing.T) {
	t.Run("a compute URL without a version gets v2.1 (F-27)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.UnversionedCompute = true })
		b.active(newMachine(t, "a", seedFields()))
	})
}

func TestANetworkThatIsNamedTwice(t *testing.T) {
	b := newBench(t)
	second := b.sim.AddNetwork(sim.Network{Name: "second", Project: sim.MetaKubeProject})
	if _, err := b.sim.AddSubnet(sim.Subnet{Name: "second", Network: second, CIDR: "10.9.0.0/24"}); err != nil {
		t.Fatal(err)
	}
	t.Run("by name and by ID gets one port (F-27)", func(t *testing.T) {
		b.t = t
		_, s := b.active(newMachine(t, "a", seedFields().with("networks", []string{"second", second})))
		if made, _ := b.sim.Server(s.ID); len(made.FixedIPs) != 2 {
			t.Errorf("addresses %v, want one in each of the two networks", made.FixedIPs)
		}
	})
}

func TestAnImageThatListsLeaveOut(t *testing.T) {
	b := newBench(t)
	id := b.sim.AddImage(sim.Image{Name: "theirs", Community: true})
	t.Run("is found by its ID (F-27)", func(t *testing.T) {
		b.t = t
		b.active(newMachine(t, "a", seedFields().with("image", id)))
	})
	t.Run("and not by its name, which anybody could give to an image of his own (F-27)", func(t *testing.T) {
		b.t = t
		if err := b.bringUp(newMachine(t, "b", seedFields().with("image", "theirs"))); fault.Of(err).Code != fault.CodeImageNotFound {
			t.Errorf("got %v", err)
		}
	})
}
