package catalog

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestResolveReturnsTheIDsOfTheResourcesThatASpecNames(t *testing.T) {
	b := newBench(t)
	want := b.plan(seedSpec())
	t.Run("makes no call to the cloud when the same spec is resolved again", func(t *testing.T) {
		b.sim.ForgetCalls()
		if diff := cmp.Diff(want, b.plan(seedSpec()), cmp.AllowUnexported(Flavor{}, Image{})); diff != "" {
			t.Error(diff)
		}
		if calls := b.sim.Calls(); len(calls) > 0 {
			t.Errorf("got the calls %v, want none", calls)
		}
	})
	t.Run("returns the same IDs for a spec with names as for a spec with IDs (MC-42)", func(t *testing.T) {
		byID := seedSpec()
		byID.Flavor, byID.Image = want.Flavor.ID, want.Image.ID
		byID.Networks, byID.Subnet = []string{want.Ports[0].NetworkID}, want.Ports[0].SubnetID
		byID.SecurityGroups, byID.FloatingIPPool, byID.ServerGroup = want.SecurityGroups, want.PoolID, want.ServerGroupID
		if diff := cmp.Diff(want, b.plan(byID), cmp.AllowUnexported(Flavor{}, Image{})); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("returns the network of the subnet when the spec names a subnet and no network (MC-42)", func(t *testing.T) {
		alone := seedSpec()
		alone.Networks = nil
		if got := b.plan(alone).Ports; !slices.Equal(got, want.Ports) {
			t.Errorf("got %+v, want %+v", got, want.Ports)
		}
	})
	t.Run("returns no security groups when the spec disables port security", func(t *testing.T) {
		open := seedSpec()
		open.SecurityGroups, open.DisablePortSecurity = nil, true
		if got := b.plan(open).SecurityGroups; got != nil {
			t.Errorf("got %v, want none", got)
		}
	})
}

func TestErrorForAResourceThatTheCloudDoesNotHave(t *testing.T) {
	b := newBench(t)
	for field, tc := range map[string]struct {
		change func(*spec.Spec)
		code   fault.Code
	}{
		"flavor":             {func(s *spec.Spec) { s.Flavor = "none" }, fault.CodeFlavorNotFound},
		"image":              {func(s *spec.Spec) { s.Image = "none" }, fault.CodeImageNotFound},
		"availabilityZone":   {func(s *spec.Spec) { s.AvailabilityZone = "none" }, fault.CodeZoneNotFound},
		"network":            {func(s *spec.Spec) { s.Networks = []string{"none"} }, fault.CodeNetworkNotFound},
		"subnet":             {func(s *spec.Spec) { s.Subnet = "none" }, fault.CodeSubnetNotFound},
		"securityGroups":     {func(s *spec.Spec) { s.SecurityGroups = []string{"none"} }, fault.CodeSecurityGroupNotFound},
		"floatingIpPool":     {func(s *spec.Spec) { s.FloatingIPPool = "none" }, fault.CodeIPPoolNotFound},
		"serverGroup":        {func(s *spec.Spec) { s.ServerGroup, s.ServerGroupField = "none", "serverGroup" }, fault.CodeServerGroupNotFound},
		"rootDiskVolumeType": {func(s *spec.Spec) { s.RootDiskVolumeType = "none" }, fault.CodeVolumeTypeNotFound},
		"keyName":            {func(s *spec.Spec) { s.KeyName = "none" }, fault.CodeKeyPairNotFound},
	} {
		t.Run("names the spec's field "+field+" when no resource has the name or ID in that field", func(t *testing.T) {
			s := seedSpec()
			tc.change(s)
			_, err := b.Resolve(t.Context(), s)
			if e := fault.Of(err); e == nil || e.Class != fault.Invalid || e.Code != tc.code || !strings.Contains(e.Message, "."+field+": ") {
				t.Errorf("got %v, want code %s and the field", err, tc.code)
			}
		})
	}
}

func TestWhenFlavorsAndImagesAreListedAgain(t *testing.T) {
	named := func(flavor string) *spec.Spec {
		s := seedSpec()
		s.Flavor = flavor
		return s
	}
	t.Run("flavors are listed again at once for a name that the cached list lacks, so that a new flavor is found (F-49)", func(t *testing.T) {
		b := newBench(t)
		b.plan(seedSpec())
		b.clock.Step(5 * time.Minute)
		b.sim.AddFlavor(sim.Flavor{Name: "new", VCPUs: 2, RAM: 4096, Disk: 20})
		b.plan(named("new"))
		if got := b.sim.CallCount("GET /flavors/detail"); got != 2 {
			t.Errorf("got %d lists of flavors, want 2", got)
		}
	})
	t.Run("flavors are listed only once for many concurrent look-ups of a name that no flavor has (F-49)", func(t *testing.T) {
		b := newBench(t)
		b.plan(seedSpec())
		b.clock.Step(time.Second)
		b.sim.ForgetCalls()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := b.Resolve(t.Context(), named("new")); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeFlavorNotFound {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if got := b.sim.CallCount("GET /flavors/detail"); got != 1 {
			t.Errorf("got %d lists of flavors, want 1", got)
		}
	})
	t.Run("flavors are listed at most once in 30 seconds for a name that no flavor has (F-49)", func(t *testing.T) {
		b := newBench(t)
		b.plan(seedSpec())
		b.clock.Step(time.Second)
		b.sim.ForgetCalls()
		for range 600 {
			if _, err := b.Resolve(t.Context(), named("new")); err == nil {
				t.Fatal("a flavor that does not exist was found")
			}
			b.clock.Step(time.Second)
		}
		if got := b.sim.CallCount("GET /flavors/detail"); got < 20 || got > 21 {
			t.Errorf("got %d lists of flavors in 10 minutes, want 20", got)
		}
	})
	t.Run("flavors and images are listed again after Forget has removed the cached lists (F-49)", func(t *testing.T) {
		b := newBench(t)
		b.plan(seedSpec())
		b.sim.ForgetCalls()
		b.Forget(seedSpec())
		b.plan(seedSpec())
		if flavors, images := b.sim.CallCount("GET /flavors/detail"), b.sim.CallCount("GET /images"); flavors != 1 || images != 1 {
			t.Errorf("got %d lists of flavors and %d of images, want one each", flavors, images)
		}
	})
}

func TestNetworkThatIsNamedTwice(t *testing.T) {
	t.Run("a server gets only one port in a network that its spec names twice, by name and by ID (F-27)", func(t *testing.T) {
		b := newBench(t)
		second := b.sim.AddNetwork(sim.Network{Name: "second", Project: sim.MetaKubeProject})
		s := seedSpec()
		s.Networks = append(s.Networks, "second", second)
		if got := b.plan(s).Ports; len(got) != 2 || got[1].NetworkID != second {
			t.Errorf("got %+v, want one port in each of the two networks", got)
		}
	})
}

func TestImagesThatAreNotInLists(t *testing.T) {
	b := newBench(t)
	id := b.sim.AddImage(sim.Image{Name: "theirs", Community: true})
	s := seedSpec()
	t.Run("a community image, which no list shows, is found by ID (F-27)", func(t *testing.T) {
		s.Image = id
		if got := b.plan(s).Image.ID; got != id {
			t.Errorf("got %s, want %s", got, id)
		}
	})
	t.Run("a community image, which no list shows, is not found by name, because any project can use the name (F-27)", func(t *testing.T) {
		s.Image = "theirs"
		if _, err := b.Resolve(t.Context(), s); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeImageNotFound {
			t.Errorf("got %v", err)
		}
	})
}
