package contract

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	openstackclient "github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/test/openstack"
)

func TestTheSimulatedCloudBehavesLikeARealCloud(t *testing.T) {
	run(t, newSimulated, true)
}

func TestTheSimulatedCloudWithUnifiedLimits(t *testing.T) {
	runTopics(t, []topic{{"unified limits", unifiedRows}}, func(t *testing.T) *target {
		return simulatedWith(t, func(c *openstack.Config) { c.UnifiedLimits = true })
	}, true)
}

func TestTheSimulatedCloudWithAClockThatIsAhead(t *testing.T) {
	runTopics(t, []topic{{"timing", timeRows[:1]}}, func(t *testing.T) *target {
		return simulatedWith(t, func(c *openstack.Config) { c.ClockAhead = time.Hour })
	}, true)
}

const (
	demo, secret = "demo", "demo-secret"
	region       = "RegionOne"
)

// oneByOne makes the simulated cloud process the create requests of a kind one after the other.
var oneByOne = openstack.Pace{Latency: 20 * time.Millisecond, AtATime: 1}

// newSimulated starts a cloud with the same resources as the runner's cloud.
func newSimulated(t *testing.T) *target {
	t.Helper()
	return simulatedWith(t, func(*openstack.Config) {})
}

// simulatedWith starts such a cloud with a changed configuration.
func simulatedWith(t *testing.T, change func(*openstack.Config)) *target {
	t.Helper()
	cfg := openstack.Config{
		BootTime: 90 * time.Millisecond, ClaimTime: 20 * time.Millisecond, NetworkTime: 10 * time.Millisecond,
		DeleteTime: 30 * time.Millisecond, PowerTime: 20 * time.Millisecond, Seed: seedDemo, Paces: map[string]openstack.Pace{
			"POST /ports": oneByOne, "POST /floatingips": oneByOne, "POST /servers": oneByOne,
		},
	}
	change(&cfg)
	c := openstack.New(cfg)
	if err := c.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	member := openstackclient.Credentials{
		IdentityEndpoint: c.AuthURL(), Region: region, Username: demo, Password: secret, ProjectName: demo, DomainName: "Default",
	}
	reader := member
	reader.Username = "demo-reader"
	other, admin := member, member
	other.Username, other.ProjectName, admin.Username, admin.ProjectName = "other", "other", "admin", "admin"
	return &target{
		credentials: member, reader: reader, other: other, admin: admin, faulty: member,
		flavor: "m1.small", impossible: "m1.impossible", diskless: "m1.diskless", image: "tiny", network: "demo-net", subnet: "demo-subnet", pool: "public",
		group: "demo-sg", keyPair: "demo-key", zone: "az1", volumeType: "ssd", unrouted: "tiny-net", nearlyEmpty: "tiny-public",
		otherNet: "other-net", sharedNet: "shared-net",
		machines:   5,
		misfortune: func(*testing.T) misfortune { return &simulated{cloud: c} },
		pace:       5 * time.Millisecond, patience: 20 * time.Second,
	}
}

func seedDemo(c *openstack.Cloud) {
	user := c.AddUser(openstack.User{Name: demo, Password: secret, Projects: []string{demo}})
	c.AddUser(openstack.User{Name: "demo-reader", Password: secret, Projects: []string{demo}, Roles: []string{"reader"}})
	c.AddUser(openstack.User{Name: "other", Password: secret, Projects: []string{"other"}})
	c.AddUser(openstack.User{Name: "admin", Password: secret, Projects: []string{"admin"}, Roles: []string{"admin"}})
	for i := range 3 {
		c.SetHost(openstack.Host{
			Name: fmt.Sprintf("compute-%d", i+1), Zone: fmt.Sprintf("az%d", i+1), Cell: "cell1", VCPUs: 64000, RAM: 1 << 24, Disk: 1 << 20,
		})
	}
	c.AddFlavor(openstack.Flavor{ID: "m1.small", Name: "m1.small", VCPUs: 1, RAM: 2048, Disk: 20})
	c.AddFlavor(openstack.Flavor{ID: "m1.impossible", Name: "m1.impossible", VCPUs: 100000, RAM: 2048, Disk: 20})
	c.AddFlavor(openstack.Flavor{ID: "m1.diskless", Name: "m1.diskless", VCPUs: 1, RAM: 2048})
	c.AddImage(openstack.Image{Name: "tiny", Size: 1 << 20, Properties: map[string]string{"architecture": "x86_64"}})
	for _, s := range []openstack.Subnet{
		{Name: "demo-subnet", Network: c.AddNetwork(openstack.Network{Name: "demo-net", Project: demo}), CIDR: "10.10.0.0/16"},
		{Name: "public-v4", Network: c.AddNetwork(openstack.Network{Name: "public", External: true}), CIDR: "172.24.0.0/16"},
		{Name: "tiny-subnet", Network: c.AddNetwork(openstack.Network{Name: "tiny-net", Project: demo, Unrouted: true}), CIDR: "10.99.0.0/29", First: "10.99.0.2", Last: "10.99.0.2"},
		{Name: "other-subnet", Network: c.AddNetwork(openstack.Network{Name: "other-net", Project: "other"}), CIDR: "10.20.0.0/24"},
		{Name: "shared-subnet", Network: c.AddNetwork(openstack.Network{Name: "shared-net", Project: "other", SharedWith: []string{demo}}), CIDR: "10.30.0.0/24"},
		{Name: "tiny-public-v4", Network: c.AddNetwork(openstack.Network{Name: "tiny-public", External: true}), CIDR: "172.25.0.0/29", First: "172.25.0.2", Last: "172.25.0.2"},
	} {
		if _, err := c.AddSubnet(s); err != nil {
			panic(err)
		}
	}
	c.AddSecurityGroup(demo, "demo-sg")
	c.AddKeyPair(user, "demo-key", "ssh-ed25519 AAAA")
	c.AddVolumeType("ssd")
}

// simulated causes faults in a simulated cloud. Each test has a cloud of its own, so the faults need not be undone.
type simulated struct {
	cloud *openstack.Cloud
	quota openstack.Quota
	seen  int
}

func (s *simulated) limit(t *testing.T, what string, n int) {
	t.Helper()
	switch n {
	case 0:
		n = openstack.None
	case -1:
		n = 0
	}
	fields := map[string]*int{
		"instances": &s.quota.Instances, "cores": &s.quota.Cores, "ram": &s.quota.RAM, "server_group_members": &s.quota.ServerGroupMembers,
		"port": &s.quota.Ports, "floatingip": &s.quota.FloatingIPs, "security_group": &s.quota.SecurityGroups,
		"volumes": &s.quota.Volumes, "gigabytes": &s.quota.Gigabytes,
	}
	*fields[what] = n
	s.cloud.SetQuota(demo, s.quota)
}

func (s *simulated) disable(_ *testing.T, zone string) {
	for _, h := range s.cloud.Hosts() {
		if zone == "" || h.Zone == zone {
			h.Disabled = true
			s.cloud.SetHost(h)
		}
	}
}

func (s *simulated) fail(_ *testing.T, server string) { s.cloud.FailServer(server, "") }

func (s *simulated) networkDown(*testing.T) (up func()) {
	s.cloud.SetNetworkDown(true)
	return func() { s.cloud.SetNetworkDown(false) }
}

func (s *simulated) answer(_ *testing.T, f failure) {
	fault := openstack.Fault{Call: f.method + " " + f.path, Times: f.times, Status: f.status, Drop: f.status == 0}
	if f.retryAfter > 0 {
		fault.Header = http.Header{"Retry-After": {fmt.Sprint(f.retryAfter)}}
	}
	s.cloud.Inject(fault)
}

func (s *simulated) calls(*testing.T) []string {
	var out []string
	all := s.cloud.Calls()
	for _, c := range all[s.seen:] {
		out = append(out, c.Name())
	}
	s.seen = len(all)
	return out
}

// TestMain allows many tests in parallel, because they wait for a cloud and not for a processor.
func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	m.Run()
}
