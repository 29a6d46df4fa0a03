package catalog

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestResolveReturnsTheIDsOfTheResourcesThatASpecNames(t *testing.T) {
	b := newBench(t)
	want := b.plan(seedSpec())
	alone := seedSpec()
	alone.Networks = nil
	inSubnet := b.plan(alone).Ports
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
		byID.Networks, byID.Subnet = []string{want.Ports[0].NetworkID}, inSubnet[0].SubnetID
		byID.SecurityGroups, byID.FloatingIPPool, byID.ServerGroup = want.SecurityGroups, want.PoolID, want.ServerGroupID
		if diff := cmp.Diff(want, b.plan(byID), cmp.AllowUnexported(Flavor{}, Image{})); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("returns the subnet and its network when the spec names a subnet and no network (MC-42)", func(t *testing.T) {
		if inSubnet[0].NetworkID != want.Ports[0].NetworkID || inSubnet[0].SubnetID == "" {
			t.Errorf("got %+v, want the network %s", inSubnet, want.Ports[0].NetworkID)
		}
	})
	t.Run("returns no subnet for a port of a network that the spec names, so that it may have an address of any of them (F-135)", func(t *testing.T) {
		if want.Ports[0].SubnetID != "" {
			t.Errorf("got %+v", want.Ports)
		}
	})
	t.Run("names every resource that the cloud does not have (F-116)", func(t *testing.T) {
		wrong := seedSpec()
		wrong.Flavor, wrong.Image, wrong.KeyName = "no-flavor", "no-image", "no-key"
		_, err := b.Resolve(t.Context(), wrong)
		for _, name := range []string{"no-flavor", "no-image", "no-key"} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s is missing in %v", name, err)
			}
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
	for code, call := range map[fault.Code]string{
		fault.CodeFlavorNotFound: "GET /flavors/detail", fault.CodeImageNotFound: "GET /images", fault.CodeNetworkNotFound: "GET /networks",
		fault.CodeSubnetNotFound: "GET /subnets", fault.CodeSecurityGroupNotFound: "GET /security-groups",
		fault.CodeServerGroupNotFound: "GET /os-server-groups",
	} {
		t.Run("only "+call+" is asked again after Forget with the code "+string(code)+" (F-49, F-130)", func(t *testing.T) {
			b := newBench(t)
			b.plan(seedSpec())
			b.sim.ForgetCalls()
			b.Forget(code)
			b.plan(seedSpec())
			if asked, all := b.sim.CallCount(call), len(b.sim.Calls()); asked != 1 || all != 1 {
				t.Errorf("got %d of the calls %v, want only one", asked, b.sim.Calls())
			}
		})
	}
}

func TestFlavorWithoutADisk(t *testing.T) {
	b := newBench(t)
	b.sim.AddFlavor(sim.Flavor{Name: "diskless", VCPUs: 2, RAM: 8192})
	s := seedSpec()
	s.Flavor = "diskless"
	t.Run("is refused before a request when servers would boot from it, with the remedy (F-109)", func(t *testing.T) {
		_, err := b.Resolve(t.Context(), s)
		if e := fault.Of(err); e == nil || e.Code != fault.CodeInvalidSpec || !strings.Contains(e.Message, "set rootDiskSizeGB") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("is accepted for servers that boot from a volume (F-109)", func(*testing.T) {
		s.RootDiskSizeGB = 20
		b.plan(s)
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

func TestImageThatIsNotActive(t *testing.T) {
	for name, status := range map[string]string{"an image that is still uploaded": "queued", "an image that an administrator has deactivated": "deactivated"} {
		for _, byID := range []bool{false, true} {
			by := "name"
			if byID {
				by = "ID"
			}
			t.Run(name+" is not found by "+by+" (report 76)", func(t *testing.T) {
				b := newBench(t)
				id := b.sim.AddImage(sim.Image{Name: "nightly", Status: status})
				s := seedSpec()
				if s.Image = "nightly"; byID {
					s.Image = id
				}
				if _, err := b.Resolve(t.Context(), s); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeImageNotFound {
					t.Errorf("got %v, want ImageNotFound", err)
				}
			})
		}
		t.Run("the active image of a name is used beside "+name+" (report 76)", func(t *testing.T) {
			b := newBench(t)
			b.sim.AddImage(sim.Image{Name: "nightly", Status: status})
			active := b.sim.AddImage(sim.Image{Name: "nightly"})
			s := seedSpec()
			s.Image = "nightly"
			if got := b.plan(s).Image.ID; got != active {
				t.Errorf("got %s, want %s", got, active)
			}
		})
	}
}

func TestTwoSecurityGroupsOfOneName(t *testing.T) {
	b := newBench(t)
	groups := []string{b.sim.AddSecurityGroup(sim.MetaKubeProject, "workers"), b.sim.AddSecurityGroup(sim.MetaKubeProject, "workers")}
	s := seedSpec()
	t.Run("are refused with an error that lists the IDs of both (report 72, report 74)", func(t *testing.T) {
		s.SecurityGroups = []string{"workers"}
		_, err := b.Resolve(t.Context(), s)
		if e := fault.Of(err); e == nil || e.Code != fault.CodeAmbiguousName || !strings.Contains(e.Message, groups[0]) || !strings.Contains(e.Message, groups[1]) {
			t.Errorf("got %v, want both IDs", err)
		}
	})
	t.Run("are told apart by their IDs (report 74)", func(t *testing.T) {
		s.SecurityGroups = groups[1:]
		if got := b.plan(s).SecurityGroups; len(got) != 1 || got[0] != groups[1] {
			t.Errorf("got %v, want %s", got, groups[1])
		}
	})
}

// renaming is a RoundTripper that shows a resource under another name once renamed is true.
type renaming struct {
	from, to string
	renamed  atomic.Bool
}

func (r *renaming) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.renamed.Load() {
		return http.DefaultTransport.RoundTrip(req)
	}
	query := req.URL.Query()
	switch query.Get("name") {
	case r.to:
		query.Set("name", r.from)
	case r.from:
		query.Set("name", "nothing-has-this-name")
	}
	req = req.Clone(req.Context())
	req.URL.RawQuery = query.Encode()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte(`"`+r.from+`"`), []byte(`"`+r.to+`"`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

func TestASecurityGroupThatIsRenamed(t *testing.T) {
	b := newBench(t)
	group := b.sim.AddSecurityGroup(sim.MetaKubeProject, "workers")
	r := &renaming{from: "workers", to: "nodes"}
	calls, err := client.New(client.Options{Clock: b.clock, Configured: b.sim.AuthURL(), HTTP: r})
	if err != nil {
		t.Fatal(err)
	}
	session, err := calls.Session(client.Credentials{
		IdentityEndpoint: b.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Catalog = New(session, b.clock, "cluster-1")
	named := func(name string) (string, error) {
		s := seedSpec()
		s.SecurityGroups = []string{name}
		p, err := b.Resolve(t.Context(), s)
		if err != nil {
			return "", err
		}
		return p.SecurityGroups[0], nil
	}
	if got, err := named("workers"); err != nil || got != group {
		t.Fatalf("got %s, %v", got, err)
	}
	r.renamed.Store(true)
	t.Run("is found under its new name at once, and stays in use under its ID for ten minutes (report 75)", func(t *testing.T) {
		for _, name := range []string{"nodes", "workers"} {
			if got, err := named(name); err != nil || got != group {
				t.Errorf("%s: got %s, %v", name, got, err)
			}
		}
	})
	t.Run("is not found under its old name after ten minutes, and is under its ID (report 75)", func(t *testing.T) {
		b.clock.Step(positiveTTL + 1)
		if _, err := named("workers"); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeSecurityGroupNotFound {
			t.Errorf("got %v", err)
		}
		if got, err := named(group); err != nil || got != group {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("is found under its old name when it gets that again (report 75)", func(t *testing.T) {
		r.renamed.Store(false)
		b.clock.Step(negativeTTL + 1)
		if got, err := named("workers"); err != nil || got != group {
			t.Errorf("got %s, %v", got, err)
		}
	})
}
