package openstack

import (
	"slices"
	"strings"
	"testing"

	sim "github.com/drover-project/drover/test/openstack"
)

// openNetwork adds a network with a subnet, whose port security is off.
func (b *bench) openNetwork(name string) (id string) {
	b.t.Helper()
	id = b.sim.AddNetwork(sim.Network{Name: name, Project: sim.MetaKubeProject, PortSecurityOff: true})
	if _, err := b.sim.AddSubnet(sim.Subnet{Name: name, Network: id, CIDR: "10.9.0.0/24"}); err != nil {
		b.t.Fatal(err)
	}
	return id
}

// groupsByNetwork returns how many security groups the Machines' ports have, by network, as Neutron shows them.
func (b *bench) groupsByNetwork() map[string]int {
	b.t.Helper()
	var all struct {
		Ports []struct {
			Network string   `json:"network_id"`
			Groups  []string `json:"security_groups"`
		} `json:"ports"`
	}
	b.raw("network", "GET", "ports", nil, &all)
	out := map[string]int{}
	for _, p := range all.Ports {
		out[p.Network] = len(p.Groups)
	}
	return out
}

func TestNetworksWithoutPortSecurity(t *testing.T) {
	t.Parallel()
	const text = "securityGroups: have no effect in network "
	for name, spec := range map[string]fields{
		"a server gets its groups in one network, and none in another whose port security is off (F-111)":                seedFields(),
		"a server gets the default group in one network, and no group in another whose port security is off (F-111)":     seedFields().with("securityGroups", nil),
		"a server in a network whose port security is off needs no right to turn it off, when the spec names it (F-111)": seedFields().with("networks", []string{"open"}).with("network", nil).with("subnet", nil),
		"a server is created in a subnet whose network has port security off (F-111)":                                    seedFields().with("network", nil).with("subnet", "open"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			open := b.openNetwork("open")
			if spec["network"] != nil {
				spec = spec.with("networks", []string{sim.MetaKubeNetwork, "open"}).with("network", nil)
			}
			m := newMachine(t, "a", spec)
			i, _ := b.active(m)
			for network, groups := range b.groupsByNetwork() {
				if (network == open) != (groups == 0) {
					t.Errorf("%d groups in network %s; port security is off in %s", groups, network, open)
				}
			}
			warned := func() bool { return slices.Contains(i.Warnings(), text+open+", because port security is off there") }
			if !warned() {
				t.Errorf("got the warnings %q, want one about network %s", i.Warnings(), open)
			}
			b.restart()
			if i = b.synced(m); !warned() {
				t.Errorf("after a restart: got the warnings %q, want one about network %s", i.Warnings(), open)
			}
		})
	}
	t.Run("no default group is created when no port can have a group (F-111)", func(t *testing.T) {
		b := newBench(t)
		b.openNetwork("open")
		b.active(newMachine(t, "a", seedFields().with("securityGroups", nil).with("network", "open").with("subnet", nil)))
		if got := b.calls("POST /security-groups"); got != 0 {
			t.Errorf("%d groups were created", got)
		}
	})
	t.Run("there is no warning when the spec disables port security", func(t *testing.T) {
		b := newBench(t)
		b.openNetwork("open")
		spec := seedFields().with("securityGroups", nil).with("network", "open").with("subnet", nil).with("disablePortSecurity", true)
		i, _ := b.active(newMachine(t, "a", spec))
		if got := strings.Join(i.Warnings(), "; "); strings.Contains(got, text) {
			t.Errorf("got %q", got)
		}
	})
}
