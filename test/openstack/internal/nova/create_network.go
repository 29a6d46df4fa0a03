package nova

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/drover-project/drover/test/openstack/internal/api"
)

func (d *draft) resolveSecurityGroups() api.Reply {
	for _, wanted := range d.spec.SecurityGroups {
		found := d.svc.Network.GroupsNamed(d.q.Project(), wanted.Name)
		switch len(found) {
		case 0:
			if wanted.Name != "default" {
				return d.bad("Security group %s not found for project %s.", wanted.Name, d.q.Project())
			}
			found = append(found, d.svc.Network.DefaultGroup(d.q.Project(), d.q.Now))
		case 1:
		default:
			return d.q.Refuse(http.StatusConflict, "Multiple security_group matches found for name '%s', use an ID to be more specific.", wanted.Name)
		}
		d.groups = append(d.groups, found[0].Name)
	}
	if len(d.groups) == 0 {
		d.groups = []string{"default"}
	}
	return api.Reply{}
}

// resolveNetworks parses `networks`: a list, or the word auto or none (2.37). Below 2.37 the field may be
// omitted.
func (d *draft) resolveNetworks() api.Reply {
	if broken, down := d.svc.withoutNetwork(d.q); down {
		return broken
	}
	var word string
	var list []networkSpec
	raw := d.spec.Networks
	switch {
	case len(raw) == 0 && d.q.Version.AtLeast(2, 37):
		return d.bad("Invalid input for field/attribute server. Value: {...}. 'networks' is a required property")
	case len(raw) == 0, json.Unmarshal(raw, &word) == nil && word == "auto":
		return d.onlyNetwork()
	case word == "none":
		return api.Reply{}
	case api.StrictDecode(raw, &list) != nil:
		return d.bad("Bad networks format")
	case len(list) == 0:
		return d.onlyNetwork()
	}
	for _, n := range list {
		if n.Port != "" {
			if refused := d.usePort(n.Port); refused.Status != 0 {
				return refused
			}
			continue
		}
		if !uuidForm.MatchString(n.UUID) {
			return d.bad("Bad networks format: network uuid is not in proper format (%s)", n.UUID)
		}
		if refused := d.useNetwork(n); refused.Status != 0 {
			return refused
		}
	}
	return api.Reply{}
}

// onlyNetwork chooses the only network that the project sees.
func (d *draft) onlyNetwork() api.Reply {
	found := d.svc.Network.InternalNetworks(d.q.Project())
	switch len(found) {
	case 0:
		return api.Reply{}
	case 1:
		d.nics = append(d.nics, nic{network: found[0].ID, made: true})
		return api.Reply{}
	default:
		return d.q.Refuse(http.StatusConflict, "Multiple possible networks found, use a Network ID to be more specific.")
	}
}

func (d *draft) usePort(id string) api.Reply {
	p, known := d.svc.Network.Port(id)
	switch {
	case !known || p.Project != d.q.Project():
		return d.bad("Port id %s could not be found.", id)
	case p.DeviceID != "" || slices.ContainsFunc(d.nics, func(n nic) bool { return n.port == id }):
		return d.q.Refuse(http.StatusConflict, "Port %s is still in use.", id)
	case d.count > 1:
		return d.bad("Failed to launch multiple servers: ports cannot be specified when more than one server is requested.")
	case len(p.FixedIPs) == 0:
		return d.bad("Port %s requires a FixedIP in order to be used.", id)
	}
	d.nics = append(d.nics, nic{network: p.Network, port: id})
	return api.Reply{}
}

func (d *draft) useNetwork(in networkSpec) api.Reply {
	n, known := d.svc.Network.VisibleNetwork(d.q, in.UUID)
	switch {
	case !known:
		return d.bad("Network %s could not be found.", in.UUID)
	case len(n.Subnets) == 0:
		return d.bad("Network %s requires a subnet in order to boot instances on.", n.ID)
	}
	if in.Fixed != "" {
		if d.svc.Network.AddressTaken(n, in.Fixed) {
			return d.bad("Fixed IP address %s is already in use on instance %s.", in.Fixed, "unknown")
		}
	}
	d.nics = append(d.nics, nic{network: n.ID, fixed: in.Fixed, made: true})
	return api.Reply{}
}

// checkPorts refuses the request if the project's quota does not allow the ports that Nova would create for it. The
// real Nova also asks Neutron about this quota before it creates anything.
func (d *draft) checkPorts() api.Reply {
	wanted := 0
	for _, n := range d.nics {
		if n.made {
			wanted += d.count
		}
	}
	if wanted > 0 && !d.svc.Ports.HasRoom(d.q.Project(), wanted) {
		return d.q.Refuse(http.StatusForbidden, "Maximum number of ports exceeded")
	}
	return api.Reply{}
}
