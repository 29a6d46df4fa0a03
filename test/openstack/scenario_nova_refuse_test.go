package openstack_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/drover-project/drover/test/openstack"
)

func TestTheSimulatedNovaRefusesInvalidRequestsForServersAtOnce(t *testing.T) {
	cloud := start(t, openstack.Config{})
	cloud.SetHost(openstack.Host{Name: "off", Zone: "empty", Disabled: true})
	c := login(t, cloud, nil)
	k := c.known(t)
	used := c.port(t, k, "in use")
	c.boot(t, k.server("holder", used.ID), nil)
	eventually(t, "the port bound", func() bool { return len(cloud.Servers()[0].Ports) == 1 && cloud.Servers()[0].Status == "ACTIVE" })

	for name, tc := range map[string]struct {
		edit    func(*servers.CreateOpts)
		hint    string
		version string
		status  int
		text    string
	}{
		"a server with an unknown flavor is refused":                   {edit: func(o *servers.CreateOpts) { o.FlavorRef = "nope" }, status: 400, text: "Flavor nope could not be found."},
		"a server with an unknown image is refused":                    {edit: func(o *servers.CreateOpts) { o.ImageRef = "00000000-0000-0000-0000-00000000dead" }, status: 400, text: "Can not find requested image"},
		"a server with neither an image nor a volume is refused":       {edit: func(o *servers.CreateOpts) { o.ImageRef = "" }, status: 400, text: "Invalid imageRef provided."},
		"a server with an unknown key pair is refused":                 {edit: func(o *servers.CreateOpts) { o.AvailabilityZone = "" }, status: 400, text: "Invalid key_name provided."},
		"a server in an unknown zone is refused":                       {edit: func(o *servers.CreateOpts) { o.AvailabilityZone = "mars" }, status: 400, text: "The requested availability zone is not available"},
		"a server in a zone without an enabled host is refused":        {edit: func(o *servers.CreateOpts) { o.AvailabilityZone = "empty" }, status: 400, text: "The requested availability zone is not available"},
		"a server on an unknown network is refused":                    {edit: func(o *servers.CreateOpts) { o.Networks = []servers.Network{{UUID: openstack.MetaKubeSubnet}} }, status: 400, text: "could not be found"},
		"a server on an unknown port is refused":                       {edit: func(o *servers.CreateOpts) { o.Networks = []servers.Network{{Port: openstack.MetaKubeSubnet}} }, status: 400, text: "could not be found"},
		"a server on a port in use is refused":                         {edit: func(o *servers.CreateOpts) { o.Networks = []servers.Network{{Port: used.ID}} }, status: 409, text: "Port " + used.ID + " is still in use."},
		"a server with an unknown security group is refused":           {edit: func(o *servers.CreateOpts) { o.SecurityGroups = []string{"nope"} }, status: 400, text: "Security group nope not found for project"},
		"a server with user data that is too long is refused":          {edit: func(o *servers.CreateOpts) { o.UserData = bytes.Repeat([]byte("x"), 49153) }, status: 400, text: "is too long"},
		"a server with user data that is not base64 is refused":        {edit: func(o *servers.CreateOpts) { o.UserData = nil }, status: 400, text: "is not a 'base64'"},
		"a server in a server group whose ID is not a UUID is refused": {hint: "shared", status: 400, text: "is not a 'uuid'"},
		"a server in an unknown server group is refused":               {hint: openstack.MetaKubeSubnet, status: 400, text: "could not be found"},
		"below microversion 2.52, a server with tags is refused":       {edit: func(o *servers.CreateOpts) { o.Tags = []string{"a"} }, version: "2.51", status: 400, text: "('tags' was unexpected)"},
		"below microversion 2.67, a server with a volume type is refused": {edit: func(o *servers.CreateOpts) {
			o.ImageRef, o.BlockDevice = "", []servers.BlockDevice{{SourceType: "image", DestinationType: "volume", UUID: k.image, VolumeSize: 10, VolumeType: "ssd"}}
		}, version: "2.66", status: 400, text: "('volume_type' was unexpected)"},
		"a server with an unknown volume type is refused": {edit: func(o *servers.CreateOpts) {
			o.ImageRef, o.BlockDevice = "", []servers.BlockDevice{{SourceType: "image", DestinationType: "volume", UUID: k.image, VolumeSize: 10, VolumeType: "gold"}}
		}, status: 400, text: "Volume type gold could not be found."},
		"a server with a root volume smaller than the image's minimum is refused": {edit: func(o *servers.CreateOpts) {
			o.ImageRef, o.BlockDevice = "", []servers.BlockDevice{{SourceType: "image", DestinationType: "volume", UUID: k.image, VolumeSize: 1}}
		}, status: 400, text: "Volume is smaller than the minimum size"},
		"a server without networks is refused from microversion 2.37 on": {edit: func(o *servers.CreateOpts) { o.Networks = nil }, status: 400, text: "'networks' is a required property"},
		"a server with metadata that is too long is refused":             {edit: func(o *servers.CreateOpts) { o.Metadata = map[string]string{"k": strings.Repeat("v", 256)} }, status: 400, text: "is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			o := k.server("node-1", "")
			if tc.edit != nil {
				tc.edit(&o)
			}
			at := *c.compute
			if tc.version != "" {
				at.Microversion = tc.version
			}
			body := servers.CreateOptsBuilder(o)
			switch name {
			case "a server with an unknown key pair is refused":
				body = extra{o, "key_name", "nope"}
			case "a server with user data that is not base64 is refused":
				body = extra{o, "user_data", "*** not base64 ***"}
			case "a server without networks is refused from microversion 2.37 on":
				body = extra{o, "networks", nil}
			}
			_, err := servers.Create(t.Context(), &at, body, servers.SchedulerHintOpts{Group: tc.hint}).Extract()
			if tc.hint == "shared" {
				// gophercloud itself refuses a server group whose ID is not a UUID, with its own error text.
				if err == nil {
					t.Error("accepted")
				}
				return
			}
			if text := refused(t, err, tc.status); !strings.Contains(text, tc.text) {
				t.Errorf("said %s, want %s", text, tc.text)
			}
		})
	}
	if n := len(cloud.Servers()); n != 1 {
		t.Errorf("%d servers were made", n-1)
	}
}

// extra is a request for a server with one more field, for values that gophercloud's own options do not allow. A nil
// value removes the field.
type extra struct {
	servers.CreateOpts
	key   string
	value any
}

func (e extra) ToServerCreateMap() (map[string]any, error) {
	m, err := e.CreateOpts.ToServerCreateMap()
	if err != nil {
		return nil, err
	}
	server := m["server"].(map[string]any)
	if server[e.key] = e.value; e.value == nil {
		delete(server, e.key)
	}
	return m, nil
}

func TestTheSimulatedNovaRefusesServersBeyondAQuotaAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		quota openstack.Quota
		text  string
	}{
		"a server beyond the quota of instances is refused":                                           {openstack.Quota{Instances: 1}, "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances"},
		"a server beyond the quota of cores is refused":                                               {openstack.Quota{Cores: 3}, "Quota exceeded for cores: Requested 2, but already used 2 of 3 cores"},
		"a server beyond the quota of RAM is refused":                                                 {openstack.Quota{RAM: 8192}, "Quota exceeded for ram: Requested 8192, but already used 8192 of 8192 ram"},
		"a server beyond the quotas of cores and RAM is refused with an error that names both quotas": {openstack.Quota{Cores: 2, RAM: 8192}, "Quota exceeded for cores, ram: Requested 2, 8192, but already used 2, 8192 of 2, 8192 cores, ram"},
		"a server beyond the quota of ports is refused":                                               {openstack.Quota{Ports: 1}, "Maximum number of ports exceeded"},
		"a server beyond the quota of server group members is refused":                                {openstack.Quota{ServerGroupMembers: 1}, "Quota exceeded, too many servers in group"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := start(t, openstack.Config{Quota: tc.quota})
			c := login(t, cloud, nil)
			k := c.known(t)
			group := servers.SchedulerHintOpts{Group: openstack.MetaKubeServerGroup}
			c.boot(t, k.server("node-1", ""), group)
			eventually(t, "ACTIVE", func() bool { return cloud.Servers()[0].Status == "ACTIVE" })
			_, err := servers.Create(t.Context(), c.compute, k.server("node-2", ""), group).Extract()
			if text := refused(t, err, 403); !strings.Contains(text, `"forbidden"`) || !strings.Contains(text, tc.text) {
				t.Errorf("said %s, want %s", text, tc.text)
			}
			cloud.SetQuota(openstack.MetaKubeProject, openstack.Quota{})
			c.boot(t, k.server("node-2", ""), group)
		})
	}
}

func TestTheSimulatedNovasLimitsShowTheQuotaAndHowMuchOfItIsUsed(t *testing.T) {
	cloud := start(t, openstack.Config{Quota: openstack.Quota{Instances: 5, Cores: openstack.None}})
	cloud.SetQuota(openstack.MetaKubeProject, openstack.Quota{Instances: 5, Cores: 10})
	c := login(t, cloud, nil)
	c.boot(t, c.known(t).server("node-1", ""), nil)
	l, err := limits.Get(t.Context(), c.compute, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if a := l.Absolute; a.MaxTotalInstances != 5 || a.MaxTotalCores != 10 || a.MaxTotalRAMSize != -1 || a.TotalInstancesUsed != 1 || a.TotalCoresUsed != 2 || a.TotalRAMUsed != 8192 {
		t.Errorf("limits %+v", a)
	}
	cloud.SetQuota("", openstack.Quota{})
}

func TestInTheSimulatedCloudAServerForWhichThereIsNoHostIsAcceptedAndFailsLater(t *testing.T) {
	for name, prepare := range map[string]func(*openstack.Cloud, *servers.CreateOpts, map[string]string){
		"a server whose flavor fits on no host goes to ERROR": func(_ *openstack.Cloud, o *servers.CreateOpts, flavors map[string]string) {
			o.FlavorRef = flavors[openstack.MetaKubeImpossible]
		},
		"a server goes to ERROR when all hosts are full": func(c *openstack.Cloud, _ *servers.CreateOpts, _ map[string]string) {
			for _, h := range c.Hosts() {
				h.VCPUs = 1
				c.SetHost(h)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := start(t, openstack.Config{BootTime: 30 * time.Millisecond})
			c := login(t, cloud, nil)
			k := c.known(t)
			p := c.port(t, k, "port")
			o := k.server("node-1", p.ID)
			prepare(cloud, &o, c.flavors(t))
			s := c.boot(t, o, nil)
			eventually(t, "ERROR", func() bool { return c.get(t, s.ID).Status == "ERROR" })
			got := c.get(t, s.ID)
			if got.Fault.Code != 500 || !strings.Contains(got.Fault.Message, "No valid host was found.") || got.HostID != "" {
				t.Errorf("fault %+v", got.Fault)
			}
			if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err != nil {
				t.Fatal(err)
			}
			_, err := servers.Get(t.Context(), c.compute, s.ID).Extract()
			refused(t, err, 404)
		})
	}
}

func TestInTheSimulatedCloudServersOfAnAntiAffinityGroupAreOnDifferentHosts(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	hard := cloud.AddServerGroup(openstack.MetaKubeProject, "", "hard", "anti-affinity")
	inZone := 0
	for _, h := range cloud.Hosts() {
		if h.Zone == openstack.MetaKubeZone {
			if inZone++; inZone > 2 {
				h.Disabled = true
				cloud.SetHost(h)
			}
		}
	}
	count := func(status string) int {
		n := 0
		for _, s := range cloud.Servers() {
			if s.Status == status {
				n++
			}
		}
		return n
	}
	for _, name := range []string{"a", "b", "c"} {
		c.boot(t, k.server(name, ""), servers.SchedulerHintOpts{Group: hard})
	}
	eventually(t, "the third refused by the hard group", func() bool { return count("ACTIVE") == 2 && count("ERROR") == 1 })
	for _, name := range []string{"d", "e", "f"} {
		c.boot(t, k.server(name, ""), servers.SchedulerHintOpts{Group: openstack.MetaKubeServerGroup})
	}
	eventually(t, "all three accepted by the soft group", func() bool { return count("ACTIVE") == 5 })
}
