package openstack

import (
	"encoding/json"
	"net/http"
	"slices"
)

func (d *draft) resolveSecurityGroups() reply {
	for _, wanted := range d.spec.SecurityGroups {
		found := d.svc.Network.groupsNamed(d.q.project(), wanted.Name)
		switch len(found) {
		case 0:
			if wanted.Name != "default" {
				return d.bad("Security group %s not found for project %s.", wanted.Name, d.q.project())
			}
			found = append(found, d.svc.Network.defaultGroup(d.q.project(), d.q.now))
		case 1:
		default:
			return d.q.refuse(http.StatusConflict, "Multiple security_group matches found for name '%s', use an ID to be more specific.", wanted.Name)
		}
		d.groups = append(d.groups, found[0].name)
	}
	if len(d.groups) == 0 {
		d.groups = []string{"default"}
	}
	return reply{}
}

// resolveNetworks reads `networks`: a list, or the word auto or none (2.37). Below 2.37 it may be left out.
func (d *draft) resolveNetworks() reply {
	if broken, down := d.svc.withoutNetwork(d.q); down {
		return broken
	}
	var word string
	var list []networkSpec
	raw := d.spec.Networks
	switch {
	case len(raw) == 0 && d.q.version.atLeast(2, 37):
		return d.bad("Invalid input for field/attribute server. Value: {...}. 'networks' is a required property")
	case len(raw) == 0, json.Unmarshal(raw, &word) == nil && word == "auto":
		return d.onlyNetwork()
	case word == "none":
		return reply{}
	case strictDecode(raw, &list) != nil:
		return d.bad("Bad networks format")
	case len(list) == 0:
		return d.onlyNetwork()
	}
	for _, n := range list {
		if n.Port != "" {
			if refused := d.usePort(n.Port); refused.status != 0 {
				return refused
			}
			continue
		}
		if !uuidForm.MatchString(n.UUID) {
			return d.bad("Bad networks format: network uuid is not in proper format (%s)", n.UUID)
		}
		if refused := d.useNetwork(n); refused.status != 0 {
			return refused
		}
	}
	return reply{}
}

// onlyNetwork takes the one network that there is.
func (d *draft) onlyNetwork() reply {
	found := d.svc.Network.internalNetworks(d.q.project())
	switch len(found) {
	case 0:
		return reply{}
	case 1:
		d.nics = append(d.nics, nic{network: found[0].id, made: true})
		return reply{}
	default:
		return d.q.refuse(http.StatusConflict, "Multiple possible networks found, use a Network ID to be more specific.")
	}
}

func (d *draft) usePort(id string) reply {
	p, known := d.svc.Network.port(id)
	switch {
	case !known || p.project != d.q.project():
		return d.bad("Port id %s could not be found.", id)
	case p.deviceID != "" || slices.ContainsFunc(d.nics, func(n nic) bool { return n.port == id }):
		return d.q.refuse(http.StatusConflict, "Port %s is still in use.", id)
	case d.count > 1:
		return d.bad("Failed to launch multiple servers: ports cannot be specified when more than one server is requested.")
	case len(p.fixedIPs) == 0:
		return d.bad("Port %s requires a FixedIP in order to be used.", id)
	}
	d.nics = append(d.nics, nic{network: p.network, port: id})
	return reply{}
}

func (d *draft) useNetwork(in networkSpec) reply {
	n, known := d.svc.Network.visibleNetwork(d.q, in.UUID)
	switch {
	case !known:
		return d.bad("Network %s could not be found.", in.UUID)
	case len(n.subnets) == 0:
		return d.bad("Network %s requires a subnet in order to boot instances on.", n.id)
	}
	if in.Fixed != "" {
		if d.svc.Network.addressTaken(n, in.Fixed) {
			return d.bad("Fixed IP address %s is already in use on instance %s.", in.Fixed, "unknown")
		}
	}
	d.nics = append(d.nics, nic{network: n.id, fixed: in.Fixed, made: true})
	return reply{}
}

// checkPorts: Nova asks Neutron beforehand whether there is room for the ports that it will make.
func (d *draft) checkPorts() reply {
	wanted := 0
	for _, n := range d.nics {
		if n.made {
			wanted += d.count
		}
	}
	if wanted > 0 && !d.svc.Network.hasRoom(d.q.project(), wanted) {
		return d.q.refuse(http.StatusForbidden, "Maximum number of ports exceeded")
	}
	return reply{}
}
