package openstack_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/drover-project/drover/test/openstack"
)

func TestTheSimulatedNeutronCreatesListsChangesAndDeletesPorts(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	ctx := t.Context()
	group := extract(t, groups.List(c.network, groups.ListOpts{Name: openstack.MetaKubeSecurityGroup}).AllPages, groups.ExtractGroups)[0].ID
	all := func(o ports.ListOpts) []ports.Port {
		return extract(t, ports.List(c.network, o).AllPages, ports.ExtractPorts)
	}

	t.Run("a port has the requested subnet, security groups and owner tag, and filters find it", func(t *testing.T) {
		p, err := ports.Create(ctx, c.network, ports.CreateOpts{
			NetworkID: k.network, Name: "n", Description: "drover c1 uid-1 0", SecurityGroups: &[]string{group},
			FixedIPs: []ports.IP{{SubnetID: openstack.MetaKubeSubnet}},
		}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		if len(p.FixedIPs) != 1 || !strings.HasPrefix(p.FixedIPs[0].IPAddress, "192.168.1.") || p.FixedIPs[0].SubnetID != openstack.MetaKubeSubnet ||
			!slices.Equal(p.SecurityGroups, []string{group}) || p.Status != "DOWN" || p.DeviceID != "" || p.MACAddress == "" || p.CreatedAt.IsZero() {
			t.Errorf("port %+v", p)
		}
		for name, o := range map[string]ports.ListOpts{
			"description": {Description: "drover c1 uid-1 0"}, "name": {Name: "n"}, "network": {NetworkID: k.network}, "no device": {Status: "DOWN"},
			"address": {FixedIPs: []ports.FixedIPOpts{{IPAddress: p.FixedIPs[0].IPAddress}}}, "page": {Limit: 1},
		} {
			if list := all(o); len(list) != 1 || list[0].ID != p.ID {
				t.Errorf("by %s: %+v", name, list)
			}
		}
		if list := all(ports.ListOpts{Description: "drover c1 uid-2 0"}); len(list) != 0 {
			t.Errorf("list %+v", list)
		}
	})
	t.Run("a port has the default security group unless the request names another one or disables port security", func(t *testing.T) {
		p := c.port(t, k, "default")
		g, err := groups.Get(ctx, c.network, p.SecurityGroups[0]).Extract()
		if err != nil || g.Name != "default" {
			t.Errorf("group %+v, %v", g, err)
		}
		off := false
		open, err := ports.Create(ctx, c.network, portsecurity.PortCreateOptsExt{CreateOptsBuilder: ports.CreateOpts{NetworkID: k.network}, PortSecurityEnabled: &off}).Extract()
		if err != nil || len(open.SecurityGroups) != 0 {
			t.Errorf("port %+v, %v", open, err)
		}
		_, err = ports.Create(ctx, c.network, portsecurity.PortCreateOptsExt{
			CreateOptsBuilder: ports.CreateOpts{NetworkID: k.network, SecurityGroups: &[]string{group}}, PortSecurityEnabled: &off,
		}).Extract()
		refused(t, err, 400)
	})
	t.Run("a bulk request creates either all of its ports or none", func(t *testing.T) {
		before := len(all(ports.ListOpts{}))
		bulk := func(networks ...string) (int, []any) {
			var list []map[string]any
			for _, n := range networks {
				list = append(list, map[string]any{"network_id": n, "tags": []string{"t"}})
			}
			status, _, body := c.raw(t, rawCall{method: http.MethodPost, url: c.network.ServiceURL("ports"), body: map[string]any{"ports": list}})
			made, _ := body["ports"].([]any)
			return status, made
		}
		if status, made := bulk(k.network, openstack.MetaKubeSubnet); status != 404 || len(made) != 0 {
			t.Errorf("status %d, made %v", status, made)
		}
		if n := len(all(ports.ListOpts{})); n != before {
			t.Errorf("%d ports, %d before", n, before)
		}
		if status, made := bulk(k.network, k.network); status != 201 || len(made) != 2 {
			t.Errorf("status %d, made %v", status, made)
		}
		if n := len(all(ports.ListOpts{Tags: "t"})); n != 2 {
			t.Errorf("%d ports with the tag", n)
		}
	})
	t.Run("the description of a port can be changed, and the port can be deleted", func(t *testing.T) {
		p := c.port(t, k, "old")
		text := "new"
		got, err := ports.Update(ctx, c.network, p.ID, ports.UpdateOpts{Description: &text}).Extract()
		if err != nil || got.Description != "new" || got.RevisionNumber != p.RevisionNumber+1 {
			t.Errorf("got %+v, %v", got, err)
		}
		if err := ports.Delete(ctx, c.network, p.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
		refused(t, ports.Delete(ctx, c.network, p.ID).ExtractErr(), 404)
	})
}

func TestTheSimulatedNeutronRefusesInvalidRequestsForPorts(t *testing.T) {
	cloud := start(t, openstack.Config{})
	small := cloud.AddNetwork(openstack.Network{Name: "small", Project: openstack.MetaKubeProject})
	if _, err := cloud.AddSubnet(openstack.Subnet{Name: "small", Network: small, CIDR: "10.0.0.0/30"}); err != nil {
		t.Fatal(err)
	}
	c := login(t, cloud, nil)
	k := c.known(t)
	ctx := t.Context()
	taken := c.port(t, k, "taken").FixedIPs[0].IPAddress
	if _, err := ports.Create(ctx, c.network, ports.CreateOpts{NetworkID: small}).Extract(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		o      ports.CreateOpts
		status int
		kind   string
	}{
		"a port in an unknown network is refused with 404":                  {ports.CreateOpts{NetworkID: "nope"}, 404, "NetworkNotFound"},
		"a port in an unknown subnet is refused with 404":                   {ports.CreateOpts{NetworkID: k.network, FixedIPs: []ports.IP{{SubnetID: "nope"}}}, 404, "SubnetNotFound"},
		"a port in a subnet of another network is refused with 400":         {ports.CreateOpts{NetworkID: small, FixedIPs: []ports.IP{{SubnetID: openstack.MetaKubeSubnet}}}, 400, "InvalidInput"},
		"a port with an unknown security group is refused with 404":         {ports.CreateOpts{NetworkID: k.network, SecurityGroups: &[]string{"nope"}}, 404, "SecurityGroupNotFound"},
		"a port with an address in use is refused with 409":                 {ports.CreateOpts{NetworkID: k.network, FixedIPs: []ports.IP{{IPAddress: taken}}}, 409, "IpAddressAlreadyAllocated"},
		"a port with an address outside of its network is refused with 400": {ports.CreateOpts{NetworkID: k.network, FixedIPs: []ports.IP{{IPAddress: "8.8.8.8"}}}, 400, "InvalidIpForNetwork"},
		"a port in a network without a free address is refused with 409":    {ports.CreateOpts{NetworkID: small}, 409, "IpAddressGenerationFailure"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ports.Create(ctx, c.network, tc.o).Extract()
			if text := refused(t, err, tc.status); !strings.Contains(text, `"NeutronError"`) || !strings.Contains(text, `"type":"`+tc.kind+`"`) {
				t.Error(text)
			}
		})
	}
	t.Run("a list of ports with an unknown filter is refused with 400", func(t *testing.T) {
		if status, _, body := c.raw(t, rawCall{method: http.MethodGet, url: c.network.ServiceURL("ports") + "?colour=red"}); status != 400 {
			t.Errorf("status %d, %v", status, body)
		}
	})
	t.Run("a list of ports with an unknown marker is refused with 404", func(t *testing.T) {
		_, err := ports.List(c.network, ports.ListOpts{Limit: 1, Marker: "nope"}).AllPages(ctx)
		refused(t, err, 404)
	})
	t.Run("a port with an unknown field is refused with 400", func(t *testing.T) {
		body := map[string]any{"port": map[string]any{"network_id": k.network, "colour": "red"}}
		if status, _, answer := c.raw(t, rawCall{method: http.MethodPost, url: c.network.ServiceURL("ports"), body: body}); status != 400 {
			t.Errorf("status %d, %v", status, answer)
		}
	})
}

func TestTheSimulatedNeutronRefusesResourcesBeyondTheQuota(t *testing.T) {
	cloud := start(t, openstack.Config{Quota: openstack.Quota{Ports: 2, FloatingIPs: 1, SecurityGroups: 2}})
	c := login(t, cloud, nil)
	k := c.known(t)
	ctx := t.Context()
	pool := c.pool(t)
	over := func(err error, kind string) {
		t.Helper()
		if text := refused(t, err, 409); !strings.Contains(text, `"type":"OverQuota"`) || !strings.Contains(text, "Quota exceeded for resources: ['"+kind+"'].") {
			t.Error(text)
		}
	}
	c.port(t, k, "1")
	c.port(t, k, "2")
	_, err := ports.Create(ctx, c.network, ports.CreateOpts{NetworkID: k.network}).Extract()
	over(err, "port")
	if _, err := floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: pool}).Extract(); err != nil {
		t.Fatal(err)
	}
	_, err = floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: pool}).Extract()
	over(err, "floatingip")
	_, err = groups.Create(ctx, c.network, groups.CreateOpts{Name: "more"}).Extract()
	over(err, "security_group")

	q, err := quotas.GetDetail(ctx, c.network, cloud.AddProject(openstack.MetaKubeProject, "")).Extract()
	if err != nil || q.Port.Limit != 2 || q.Port.Used != 2 || q.FloatingIP.Used != 1 || q.Network.Limit != -1 {
		t.Errorf("quota %+v, %v", q, err)
	}
}

func (c clients) pool(t *testing.T) string {
	t.Helper()
	return extract(t, networks.List(c.network, networks.ListOpts{Name: openstack.MetaKubePool}).AllPages, networks.ExtractNetworks)[0].ID
}

func TestFloatingIPsOfTheSimulatedCloud(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	ctx := t.Context()
	pool := c.pool(t)
	p := c.port(t, k, "port")
	f, err := floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: pool, PortID: p.ID, Description: "drover c1 uid-1 0"}).Extract()
	if err != nil || f.PortID != p.ID || f.FixedIP != p.FixedIPs[0].IPAddress || f.Status != "ACTIVE" {
		t.Fatalf("made %+v, %v", f, err)
	}
	t.Run("floating IPs are found by their owner tag", func(t *testing.T) {
		list := extract(t, floatingips.List(c.network, floatingips.ListOpts{Description: "drover c1 uid-1 0"}).AllPages, floatingips.ExtractFloatingIPs)
		if len(list) != 1 || list[0].ID != f.ID {
			t.Errorf("list %+v", list)
		}
	})
	t.Run("Neutron refuses a floating IP whose port already has one, whose port is unknown, or whose network is not external", func(t *testing.T) {
		_, err := floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: pool, PortID: p.ID}).Extract()
		if text := refused(t, err, 409); !strings.Contains(text, "FloatingIPPortAlreadyAssociated") {
			t.Error(text)
		}
		_, err = floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: pool, PortID: "nope"}).Extract()
		refused(t, err, 404)
		_, err = floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: k.network}).Extract()
		refused(t, err, 400)
	})
	t.Run("a server shows an added or removed floating IP only after a while, and the server's field updated stays the same", func(t *testing.T) {
		s := c.boot(t, k.server("node-1", p.ID), nil)
		eventually(t, "the address on the server", func() bool {
			list, _ := c.get(t, s.ID).Addresses[openstack.MetaKubeNetwork].([]any)
			return len(list) == 2
		})
		updated := c.get(t, s.ID).Updated
		if _, err := floatingips.Update(ctx, c.network, f.ID, floatingips.UpdateOpts{PortID: new(string)}).Extract(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the address off the server", func() bool {
			list, _ := c.get(t, s.ID).Addresses[openstack.MetaKubeNetwork].([]any)
			return len(list) == 1
		})
		if now := c.get(t, s.ID).Updated; !now.Equal(updated) {
			t.Errorf("updated moved from %s to %s", updated, now)
		}
	})
	t.Run("a floating IP stays when its port is deleted", func(t *testing.T) {
		other := c.port(t, k, "other")
		if _, err := floatingips.Update(ctx, c.network, f.ID, floatingips.UpdateOpts{PortID: &other.ID}).Extract(); err != nil {
			t.Fatal(err)
		}
		if err := ports.Delete(ctx, c.network, other.ID).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		got, err := floatingips.Get(ctx, c.network, f.ID).Extract()
		if err != nil || got.PortID != "" || got.Status != "DOWN" {
			t.Errorf("got %+v, %v", got, err)
		}
		if err := floatingips.Delete(ctx, c.network, f.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
		refused(t, floatingips.Delete(ctx, c.network, f.ID).ExtractErr(), 404)
	})
	t.Run("Neutron refuses a floating IP when the pool has no free address", func(t *testing.T) {
		small := cloud.AddNetwork(openstack.Network{Name: "small-pool", External: true})
		if _, err := cloud.AddSubnet(openstack.Subnet{Network: small, CIDR: "198.51.100.0/24", First: "198.51.100.10", Last: "198.51.100.10"}); err != nil {
			t.Fatal(err)
		}
		if _, err := floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: small}).Extract(); err != nil {
			t.Fatal(err)
		}
		_, err := floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: small}).Extract()
		if text := refused(t, err, 409); !strings.Contains(text, "IpAddressGenerationFailure") {
			t.Error(text)
		}
	})
}

func TestInTheSimulatedCloudSecurityGroupsHaveRulesAndCannotBeDeletedWhileAPortUsesThem(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	ctx := t.Context()
	g, err := groups.Create(ctx, c.network, groups.CreateOpts{Name: "kubernetes-v1", Description: "d"}).Extract()
	if err != nil || len(g.Rules) != 2 {
		t.Fatalf("a new group lets everything out; got %+v, %v", g, err)
	}
	twin, err := groups.Create(ctx, c.network, groups.CreateOpts{Name: "kubernetes-v1"}).Extract()
	if err != nil || twin.ID == g.ID {
		t.Fatalf("names need not be unique; got %+v, %v", twin, err)
	}
	o := rules.CreateOpts{Direction: rules.DirIngress, EtherType: rules.EtherType4, SecGroupID: g.ID, RemoteGroupID: g.ID}
	if _, err := rules.Create(ctx, c.network, o).Extract(); err != nil {
		t.Fatal(err)
	}
	_, err = rules.Create(ctx, c.network, o).Extract()
	if text := refused(t, err, 409); !strings.Contains(text, "SecurityGroupRuleExists") {
		t.Error(text)
	}
	p, err := ports.Create(ctx, c.network, ports.CreateOpts{NetworkID: c.known(t).network, SecurityGroups: &[]string{g.ID}}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if text := refused(t, groups.Delete(ctx, c.network, g.ID).ExtractErr(), 409); !strings.Contains(text, "SecurityGroupInUse") {
		t.Error(text)
	}
	if err := ports.Delete(ctx, c.network, p.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if err := groups.Delete(ctx, c.network, g.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
}

func TestInTheSimulatedCloudASubnetIsFoundByItsIDAndByItsNetwork(t *testing.T) {
	c := login(t, start(t, openstack.Config{BootTime: time.Second}), nil)
	s, err := subnets.Get(t.Context(), c.network, openstack.MetaKubeSubnet).Extract()
	if err != nil || s.CIDR != "192.168.1.0/24" || s.IPVersion != 4 || s.GatewayIP != "192.168.1.1" {
		t.Fatalf("subnet %+v, %v", s, err)
	}
	if list := extract(t, subnets.List(c.network, subnets.ListOpts{NetworkID: s.NetworkID}).AllPages, subnets.ExtractSubnets); len(list) != 1 {
		t.Errorf("list %+v", list)
	}
}
