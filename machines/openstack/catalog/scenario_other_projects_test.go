package catalog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

const otherProject = "other"

// addNetwork adds a network with a subnet of the same name.
func (b *bench) addNetwork(n sim.Network) (id string) {
	b.t.Helper()
	id = b.sim.AddNetwork(n)
	if _, err := b.sim.AddSubnet(sim.Subnet{Name: n.Name, Network: id, CIDR: "10.7.0.0/24"}); err != nil {
		b.t.Fatal(err)
	}
	return id
}

func TestNamesThatAnotherProjectUsesToo(t *testing.T) {
	subnetByName := func(s *spec.Spec) { s.Networks, s.Subnet = nil, sim.MetaKubeNetwork }
	onlyNetwork := func(s *spec.Spec) { s.Networks, s.Subnet = nil, "" }
	unchanged := func(*spec.Spec) {}
	for name, tc := range map[string]struct {
		spec  func(*spec.Spec)
		other func(*bench)
	}{
		"its own network is used when another project shares one of the same name (F-93)": {unchanged, func(b *bench) {
			b.addNetwork(sim.Network{Name: sim.MetaKubeNetwork, Project: otherProject, SharedWith: []string{sim.MetaKubeProject}})
		}},
		"its own network is used when all projects share one of the same name (F-93)": {unchanged, func(b *bench) {
			b.addNetwork(sim.Network{Name: sim.MetaKubeNetwork})
		}},
		"its own subnet is used when another project shares a network with a subnet of the same name (F-93)": {subnetByName, func(b *bench) {
			b.addNetwork(sim.Network{Name: sim.MetaKubeNetwork, Project: otherProject, SharedWith: []string{sim.MetaKubeProject}})
		}},
		"its floating IP pool is the external network when another project shares an internal one of the same name (F-93)": {unchanged, func(b *bench) {
			b.addNetwork(sim.Network{Name: sim.MetaKubePool, Project: otherProject, SharedWith: []string{sim.MetaKubeProject}})
		}},
		"its own network is the only one, although another project shares one with it (F-93)": {onlyNetwork, func(b *bench) {
			b.addNetwork(sim.Network{Name: "theirs", Project: otherProject, SharedWith: []string{sim.MetaKubeProject}})
		}},
		"its own image is used when a public one has the same name (F-93)": {func(s *spec.Spec) { s.Image = "both" }, func(b *bench) {
			b.sim.AddImage(sim.Image{Name: "both"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.sim.AddImage(sim.Image{Name: "both", Project: sim.MetaKubeProject})
			s := seedSpec()
			tc.spec(s)
			want := b.plan(s)
			tc.other(b)
			b.clock.Step(positiveTTL)
			got := b.plan(s)
			if got.Ports[0] != want.Ports[0] || got.PoolID != want.PoolID || got.Image.ID != want.Image.ID {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	t.Run("a shared network is found by its name when the project has none of that name", func(t *testing.T) {
		b := newBench(t)
		shared := b.addNetwork(sim.Network{Name: "theirs", Project: otherProject, SharedWith: []string{sim.MetaKubeProject}})
		s := seedSpec()
		s.Networks, s.Subnet = []string{"theirs"}, ""
		if got := b.plan(s).Ports[0].NetworkID; got != shared {
			t.Errorf("got %s, want %s", got, shared)
		}
	})
	t.Run("a spec without a network is refused when the project has none of its own, so that no other project gets its servers (F-93)", func(t *testing.T) {
		b := newBench(t)
		b.sim.AddUser(sim.User{Name: "u", Password: "p", Domain: sim.MetaKubeDomain, Projects: []string{otherProject}})
		b.addNetwork(sim.Network{Name: "trap", Project: sim.MetaKubeProject, SharedWith: []string{otherProject}})
		s := withoutGroups()
		s.Networks, s.Subnet, s.ServerGroup = nil, "", ""
		_, err := b.catalogOf(b.credentials("u", otherProject)).Resolve(t.Context(), s)
		if e := fault.Of(err); e == nil || e.Code != fault.CodeNetworkNotFound || !strings.Contains(e.Message, "no network of its own") {
			t.Errorf("got %v", err)
		}
	})
}

func TestNamesThatAnAdministratorSeesInSeveralProjects(t *testing.T) {
	b := newBench(t)
	admin := b.adminOf(otherProject)
	network := b.addNetwork(sim.Network{Name: sim.MetaKubeNetwork, Project: otherProject})
	group := b.sim.AddSecurityGroup(otherProject, sim.MetaKubeSecurityGroup)
	theirs := b.sim.AddSecurityGroup(sim.MetaKubeProject, "workers")
	resolve := func(groups ...string) (*Plan, error) {
		s := seedSpec()
		s.Subnet, s.ServerGroup, s.SecurityGroups = "", "", groups
		return admin.Resolve(t.Context(), s)
	}
	t.Run("stand for the resources of the credentials' project (F-112)", func(t *testing.T) {
		got, err := resolve(sim.MetaKubeSecurityGroup)
		if err != nil || got.Ports[0].NetworkID != network || got.SecurityGroups[0] != group {
			t.Errorf("got %+v, %v, want network %s and group %s", got, err, network, group)
		}
	})
	t.Run("are refused when only another project has such a resource and does not share it (F-112)", func(t *testing.T) {
		_, err := resolve("workers")
		if e := fault.Of(err); e == nil || e.Code != fault.CodeSecurityGroupNotFound || !strings.Contains(e.Message, "is in another project") || !strings.Contains(e.Message, theirs) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("do not matter for the group that the credentials' project has, however many other projects have one of the name (report 71)", func(t *testing.T) {
		for _, project := range []string{"fourth", "fifth", "sixth"} {
			b.sim.AddProject(project, sim.MetaKubeDomain)
			b.sim.AddSecurityGroup(project, sim.MetaKubeSecurityGroup)
			b.sim.AddSecurityGroup(project, "default")
		}
		own := b.sim.AddSecurityGroup(otherProject, "own")
		b.clock.Step(positiveTTL)
		got, err := resolve(sim.MetaKubeSecurityGroup, "own")
		if err != nil || !slices.Equal(slices.Sorted(slices.Values(got.SecurityGroups)), slices.Sorted(slices.Values([]string{group, own}))) {
			t.Errorf("got %+v, %v, want the groups %s and %s", got, err, group, own)
		}
	})
	t.Run("do not matter for IDs", func(t *testing.T) {
		if got, err := resolve(theirs); err != nil || got.SecurityGroups[0] != theirs {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestSubnetsAndImagesThatAnAdministratorSeesInSeveralProjects(t *testing.T) {
	b := newBench(t)
	admin := b.adminOf(otherProject)
	const third = "third"
	b.sim.AddProject(third, sim.MetaKubeDomain)
	hidden := b.addNetwork(sim.Network{Name: "hidden", Project: third})
	resolve := func(change func(*spec.Spec)) (*Plan, error) {
		s := seedSpec()
		s.Networks, s.Subnet, s.ServerGroup, s.SecurityGroups = nil, "hidden", "", nil
		change(s)
		return admin.Resolve(t.Context(), s)
	}
	refused := func(t *testing.T, err error, code fault.Code) {
		t.Helper()
		if e := fault.Of(err); e == nil || e.Code != code || !strings.Contains(e.Message, "is in another project") {
			t.Errorf("got %v", err)
		}
	}
	t.Run("a subnet of a network that another project does not share is refused by name (F-112)", func(t *testing.T) {
		_, err := resolve(func(*spec.Spec) {})
		refused(t, err, fault.CodeSubnetNotFound)
	})
	t.Run("a subnet of a network that another project shares is found by name", func(t *testing.T) {
		shared := b.addNetwork(sim.Network{Name: "theirs", Project: third, SharedWith: []string{otherProject}})
		got, err := resolve(func(s *spec.Spec) { s.Subnet = "theirs" })
		if err != nil || got.Ports[0].NetworkID != shared {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("the own subnet is used although other projects have one of the same name (F-112)", func(t *testing.T) {
		own := b.addNetwork(sim.Network{Name: "hidden", Project: otherProject})
		b.clock.Step(positiveTTL)
		got, err := resolve(func(*spec.Spec) {})
		if err != nil || got.Ports[0].NetworkID != own || own == hidden {
			t.Errorf("got %+v, %v, want network %s", got, err, own)
		}
	})
	image := func(name string) func(*spec.Spec) { return func(s *spec.Spec) { s.Image = name } }
	for name, theirs := range map[string]sim.Image{
		"a private image of another project is refused by name (F-112)":                                       {Name: "private", Project: third},
		"an image that another project shares with nobody, as every new image is, is refused by name (F-112)": {Name: "unshared", Project: third, SharedWith: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			b.sim.AddImage(theirs)
			_, err := resolve(image(theirs.Name))
			refused(t, err, fault.CodeImageNotFound)
		})
	}
	t.Run("an image that another project shares with this one is found by name", func(t *testing.T) {
		want := b.sim.AddImage(sim.Image{Name: "for-us", Project: third, SharedWith: []string{otherProject}})
		if got, err := resolve(image("for-us")); err != nil || got.Image.ID != want {
			t.Errorf("got %+v, %v, want image %s", got, err, want)
		}
	})
	t.Run("a public image is used although other projects have private ones of the same name (F-112)", func(t *testing.T) {
		want := b.sim.AddImage(sim.Image{Name: "ours"})
		b.sim.AddImage(sim.Image{Name: "ours", Project: third})
		b.sim.AddImage(sim.Image{Name: "ours", Project: third, SharedWith: []string{}})
		if got, err := resolve(image("ours")); err != nil || got.Image.ID != want {
			t.Errorf("got %+v, %v, want image %s", got, err, want)
		}
	})
}

func TestNamesWithCharactersThatTheCloudInterprets(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"ubuntu:24.04", "in:a,b", "eq:x", "2026-01-01T00:00:00Z", `a,"b"`, "ubuntu (1.0) [x]|y.*", "~ubuntu", "%", "neq:ubuntu"} {
		t.Run("are looked up unchanged: "+name+" (M.2)", func(t *testing.T) {
			b.clock.Step(time.Second)
			image := b.sim.AddImage(sim.Image{Name: name})
			b.sim.AddImage(sim.Image{Name: "a"})
			network := b.addNetwork(sim.Network{Name: name, Project: sim.MetaKubeProject})
			group := b.sim.AddSecurityGroup(sim.MetaKubeProject, name)
			flavor := b.sim.AddFlavor(sim.Flavor{Name: name, VCPUs: 1, RAM: 1024, Disk: 20})
			s := seedSpec()
			s.Image, s.Networks, s.Subnet, s.SecurityGroups, s.Flavor = name, []string{name}, name, []string{name}, name
			got := b.plan(s)
			if got.Image.ID != image || got.Ports[0].NetworkID != network || got.SecurityGroups[0] != group || got.Flavor.ID != flavor {
				t.Errorf("got %+v", got)
			}
		})
	}
}
