package contract

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

var portRows = []row{
	{"a port has the requested owner tag, subnet and security groups", nothing, func(b *bench) {
		mark := b.name() + " one"
		a := b.want(b.port(doc{
			"description": mark, "fixed_ips": []doc{{"subnet_id": b.subnetID()}}, "security_groups": []string{b.groupID()},
		}), http.StatusCreated)
		for field, want := range map[string]any{
			"description": mark, "network_id": b.networkID(b.network), "fixed_ips.0.subnet_id": b.subnetID(), "security_groups": "[" + b.groupID() + "]",
			"device_id": "", "device_owner": "", "status": "DOWN", "admin_state_up": true, "port_security_enabled": true,
			"project_id": b.user.project, "allowed_address_pairs": "[]", "tags": "[]", "binding:vnic_type": "normal",
		} {
			b.same(field, a.at("port."+field), want)
		}
		if a.word("port.fixed_ips.0.ip_address") == "" || a.word("port.mac_address") == "" {
			b.Errorf("answered %s", a.text)
		}
	}},
	{"in a network whose port security is off, a port with security groups or address pairs is refused, and a port without them has no groups", nothing, func(b *bench) {
		made := b.want(b.user.post(network, "/networks", doc{"network": doc{"name": b.name(), "port_security_enabled": false}}), http.StatusCreated)
		id := made.word("network.id")
		b.discard(network, "/networks/"+id)
		b.same("port_security_enabled", b.want(b.user.get(network, "/networks/"+id), http.StatusOK).at("network.port_security_enabled"), false)
		b.want(b.port(doc{"network_id": id, "security_groups": []string{b.groupID()}}), http.StatusBadRequest, "PortSecurityAndIPRequiredForSecurityGroups")
		b.want(b.port(doc{"network_id": id, "allowed_address_pairs": []doc{{"ip_address": "10.0.0.9"}}}), http.StatusConflict, "AddressPairAndPortSecurityRequired")
		for _, extra := range []doc{{}, {"security_groups": []string{}}} {
			extra["network_id"] = id
			a := b.want(b.port(extra), http.StatusCreated)
			b.same("security_groups", a.at("port.security_groups"), "[]")
			b.same("port_security_enabled of the port", a.at("port.port_security_enabled"), false)
		}
	}},
	{"a filter by owner tag matches only the whole tag, regardless of upper and lower case", nothing, exactMarks},
	{"a list of ports has only the requested fields, and only ports of the requested project", nothing, func(b *bench) {
		id := b.portID()
		a := b.want(b.user.get(network, "/ports?fields=id&fields=description&project_id="+b.user.project), http.StatusOK)
		for _, r := range a.rows("ports") {
			if len(r) != 2 {
				b.Fatalf("a row has %v", r)
			}
		}
		if !strings.Contains(a.text, id) {
			b.Error("the port is not among them")
		}
		b.same("of another project", len(b.want(b.user.get(network, "/ports?project_id="+strings.Repeat("0", 32)), http.StatusOK).rows("ports")), 0)
	}},
	{"a list of ports shows the subports of a parent, which are bound to nothing; a port of a trunk cannot be deleted; an unknown field is left out", nothing, func(b *bench) {
		if b.user.get(network, "/extensions/trunk").status == http.StatusNotFound {
			b.Log("left out: needs Neutron's extension trunk")
			return
		}
		parent, sub := b.portID(), b.portID()
		trunk := doc{"trunk": doc{"port_id": parent, "sub_ports": []doc{{"port_id": sub, "segmentation_type": "vlan", "segmentation_id": 100}}}}
		id := b.want(b.user.post(network, "/trunks", trunk), http.StatusCreated).word("trunk.id")
		b.discard(network, "/trunks/"+id)
		list := b.want(b.user.get(network, "/ports?fields=id&fields=device_id&fields=trunk_details&fields=colour&project_id="+b.user.project), http.StatusOK)
		for _, r := range list.rows("ports") {
			switch details, shown := r["trunk_details"].(map[string]any); {
			case r["id"] == parent && (!shown || details["trunk_id"] != id || !strings.Contains(fmt.Sprint(details["sub_ports"]), sub)):
				b.Errorf("the parent is %v", r)
			case r["id"] == sub && (shown || r["device_id"] != ""):
				b.Errorf("the subport is %v", r)
			}
		}
		b.want(b.user.delete(network, "/ports/"+parent), http.StatusConflict, "PortInUseAsTrunkParent", "Port "+parent+" is currently a parent port for trunk "+id+".")
		b.want(b.user.delete(network, "/ports/"+sub), http.StatusConflict, "PortInUseAsSubPort")
		b.want(b.user.post(network, "/trunks", doc{"trunk": doc{"port_id": parent}}), http.StatusConflict, "ParentPortInUse")
		b.want(b.user.post(network, "/trunks", doc{"trunk": doc{"port_id": sub}}), http.StatusConflict, "TrunkPortInUse")
		b.want(b.user.delete(network, "/trunks/"+id), http.StatusNoContent)
		b.want(b.user.delete(network, "/trunks/"+id), http.StatusNotFound)
	}},
	{"a list of ports with an unknown filter is refused with 400", nothing, func(b *bench) {
		b.want(b.user.get(network, "/ports?colour=blue"), http.StatusBadRequest, "HTTPBadRequest", "['colour'] is invalid attribute for filtering")
	}},
	{"the pages of a list of ports together have every port, and an unknown marker is refused with 404", nothing, func(b *bench) {
		mark, ids := b.name(), map[string]bool{}
		for range 3 {
			ids[b.want(b.port(doc{"description": mark}), http.StatusCreated).word("port.id")] = true
		}
		path := "/ports?limit=2&description=" + mark
		for pages := 0; path != "" && pages < 5; pages++ {
			a := b.want(b.user.get(network, path), http.StatusOK)
			for _, r := range a.rows("ports") {
				delete(ids, r["id"].(string))
			}
			path = ""
			for _, l := range a.rows("ports_links") {
				if next, err := url.Parse(l["href"].(string)); err == nil && l["rel"] == "next" {
					path = "/ports?" + next.RawQuery
				}
			}
		}
		b.same("ports that no page had", len(ids), 0)
		b.want(b.user.get(network, "/ports?limit=2&marker="+nowhere), http.StatusNotFound, "PortNotFound")
	}},
	{"deleting a port returns 204, and deleting it again returns 404", nothing, func(b *bench) {
		id := b.portID()
		b.want(b.user.delete(network, "/ports/"+id), http.StatusNoContent)
		b.want(b.user.delete(network, "/ports/"+id), http.StatusNotFound, "PortNotFound", "Port "+id+" could not be found.")
	}},
	{"a port is refused with 404 for an unknown network, subnet or security group, and with 400 for an invalid value", nothing, func(b *bench) {
		b.want(b.port(doc{"network_id": nowhere}), http.StatusNotFound, "NetworkNotFound", "Network "+nowhere+" could not be found.")
		b.want(b.port(doc{"security_groups": []string{nowhere}}), http.StatusNotFound, "SecurityGroupNotFound", "Security group "+nowhere+" does not exist")
		b.want(b.port(doc{"fixed_ips": []doc{{"subnet_id": nowhere}}}), http.StatusNotFound, "SubnetNotFound", "Subnet "+nowhere+" could not be found.")
		b.want(b.port(doc{"flavour": "x"}), http.StatusBadRequest, "Unrecognized attribute(s) 'flavour'")
		b.want(b.port(doc{"fixed_ips": []doc{{"ip_address": "198.51.100.1"}}}), http.StatusBadRequest, "InvalidIpForNetwork")
	}},
	{"creating a port in a subnet of another network is refused with 400", aPlayground, func(b *bench) {
		a := b.want(b.port(doc{"network_id": b.networkID(b.unrouted), "fixed_ips": []doc{{"subnet_id": b.subnetID()}}}), http.StatusBadRequest)
		b.same("type", a.word("NeutronError.type"), "InvalidInput")
	}},
	{"creating a port with an address in use is refused with 409", nothing, func(b *bench) {
		address := b.want(b.port(nil), http.StatusCreated).word("port.fixed_ips.0.ip_address")
		b.want(b.port(doc{"fixed_ips": []doc{{"ip_address": address}}}), http.StatusConflict, "IpAddressAlreadyAllocated")
	}},
	{"creating a port in a network without a free address is refused with 409", aPlayground, func(b *bench) {
		id := b.networkID(b.unrouted)
		b.want(b.port(doc{"network_id": id}), http.StatusCreated)
		b.want(b.port(doc{"network_id": id}), http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network "+id+".")
	}},
	{"a port without port security cannot have security groups", nothing, func(b *bench) {
		a := b.want(b.port(doc{"port_security_enabled": false, "security_groups": []string{}}), http.StatusCreated)
		b.same("port_security_enabled", a.at("port.port_security_enabled"), false)
		b.want(b.port(doc{"port_security_enabled": false, "security_groups": []string{b.groupID()}}), http.StatusBadRequest, "PortSecurityAndIPRequiredForSecurityGroups")
	}},
	{"a request for several ports creates either all of them or none", nothing, func(b *bench) {
		id, mark := b.networkID(b.network), b.name()
		count := func() int { return len(b.user.get(network, "/ports?description="+mark).rows("ports")) }
		good := doc{"network_id": id, "description": mark}
		b.want(b.user.post(network, "/ports", doc{"ports": []doc{good, {"network_id": nowhere, "description": mark}}}), http.StatusNotFound, "NetworkNotFound")
		b.same("made by the request that failed", count(), 0)
		a := b.want(b.user.post(network, "/ports", doc{"ports": []doc{good, good}}), http.StatusCreated)
		for _, r := range a.rows("ports") {
			b.discard(network, "/ports/"+r["id"].(string))
		}
		b.same("made", count(), 2)
	}},
}

func exactMarks(b *bench) {
	mark := b.name() + " Uid 1"
	id := b.want(b.port(doc{"description": mark}), http.StatusCreated).word("port.id")
	b.want(b.port(doc{"description": mark + "0"}), http.StatusCreated)
	find := func(text string) []doc {
		return b.want(b.user.get(network, "/ports?description="+url.QueryEscape(text)), http.StatusOK).rows("ports")
	}
	b.same("with the mark", len(find(mark)), 1)
	b.same("the ID", find(mark)[0]["id"], id)
	b.same("with a part of it", len(find(mark[:len(mark)-1])), 0)
	b.same("with other capitals", len(find(strings.ToUpper(mark))), 1)
	b.same("with white space after it", len(find(mark+" ")), 1)
}

// floatingIP creates a floating IP. extra overrides fields of the request.
func (b *bench) floatingIP(extra doc) answer {
	b.Helper()
	body := doc{"floating_network_id": b.networkID(b.pool)}
	for k, v := range extra {
		body[k] = v
	}
	a := b.user.post(network, "/floatingips", doc{"floatingip": body})
	if id := a.word("floatingip.id"); id != "" {
		b.discard(network, "/floatingips/"+id)
	}
	return a
}

var floatingRows = []row{
	{"one call creates a floating IP with an owner tag on a port", nothing, func(b *bench) {
		port, mark := b.want(b.port(nil), http.StatusCreated), b.name()+" 0"
		a := b.want(b.floatingIP(doc{"port_id": port.word("port.id"), "description": mark}), http.StatusCreated)
		b.same("port_id", a.word("floatingip.port_id"), port.word("port.id"))
		b.same("fixed_ip_address", a.word("floatingip.fixed_ip_address"), port.word("port.fixed_ips.0.ip_address"))
		b.same("description", a.word("floatingip.description"), mark)
		if a.word("floatingip.floating_ip_address") == "" || a.word("floatingip.router_id") == "" {
			b.Errorf("answered %s", a.text)
		}
		found := b.want(b.user.get(network, "/floatingips?description="+url.QueryEscape(mark)), http.StatusOK)
		b.same("found by its mark", found.word("floatingips.0.id"), a.word("floatingip.id"))
		b.same("found by a part of it", len(b.user.get(network, "/floatingips?description="+url.QueryEscape(mark[:5])).rows("floatingips")), 0)
	}},
	{"a server shows a new floating IP a little later, and the floating IP does not change the server's update time", nothing, func(b *bench) {
		port := b.portID()
		id := b.boot(wish{fields: doc{"networks": []doc{{"port": port}}}})
		before := b.user.get(compute, "/servers/"+id).word("server.updated")
		address := b.want(b.floatingIP(doc{"port_id": port}), http.StatusCreated).word("floatingip.floating_ip_address")
		b.until("the server shows it", func() bool {
			for _, r := range b.user.get(compute, "/servers/"+id).rows("server.addresses." + b.network) {
				if r["addr"] == address && r["OS-EXT-IPS:type"] == "floating" {
					return true
				}
			}
			return false
		})
		b.same("updated", b.user.get(compute, "/servers/"+id).word("server.updated"), before)
	}},
	{"a second floating IP for a port is refused with 409", nothing, func(b *bench) {
		port := b.portID()
		b.want(b.floatingIP(doc{"port_id": port}), http.StatusCreated)
		b.want(b.floatingIP(doc{"port_id": port}), http.StatusConflict, "FloatingIPPortAlreadyAssociated")
	}},
	{"a floating IP stays when its port is deleted; its own deletion returns 204, and a second deletion 404", nothing, func(b *bench) {
		port := b.portID()
		id := b.want(b.floatingIP(doc{"port_id": port}), http.StatusCreated).word("floatingip.id")
		b.want(b.user.delete(network, "/ports/"+port), http.StatusNoContent)
		b.same("port_id", b.want(b.user.get(network, "/floatingips/"+id), http.StatusOK).at("floatingip.port_id"), nil)
		b.want(b.user.delete(network, "/floatingips/"+id), http.StatusNoContent)
		b.want(b.user.delete(network, "/floatingips/"+id), http.StatusNotFound, "FloatingIPNotFound")
	}},
	{"creating a floating IP is refused with 404 for an unknown pool or port, and with 400 for an internal network", nothing, func(b *bench) {
		b.want(b.floatingIP(doc{"floating_network_id": nowhere}), http.StatusNotFound, "NetworkNotFound")
		b.want(b.floatingIP(doc{"floating_network_id": b.networkID(b.network)}), http.StatusBadRequest, "BadRequest", "is not a valid external network")
		b.want(b.floatingIP(doc{"port_id": nowhere}), http.StatusNotFound, "PortNotFound")
	}},
	{"creating a floating IP for a port without a router to the pool is refused with 404", aPlayground, func(b *bench) {
		port := b.want(b.port(doc{"network_id": b.networkID(b.unrouted)}), http.StatusCreated).word("port.id")
		mark := b.name()
		b.want(b.floatingIP(doc{"port_id": port, "description": mark}), http.StatusNotFound, "ExternalGatewayForFloatingIPNotFound",
			"is not reachable from subnet")
		b.same("made", len(b.user.get(network, "/floatingips?description="+mark).rows("floatingips")), 0)
	}},
	{"creating a floating IP in a pool without a free address is refused with 409", aPlayground, func(b *bench) {
		id := b.networkID(b.nearlyEmpty)
		b.want(b.floatingIP(doc{"floating_network_id": id}), http.StatusCreated)
		full := []string{"IpAddressGenerationFailure", "No more IP addresses available on network " + id + "."}
		b.want(b.floatingIP(doc{"floating_network_id": id}), http.StatusConflict, full...)
		// Neutron checks for a free address before it checks whether a router connects the two networks.
		b.want(b.floatingIP(doc{"floating_network_id": id, "port_id": b.portID()}), http.StatusConflict, full...)
	}},
}

// securityGroup creates a security group.
func (b *bench) securityGroup(name string) answer {
	b.Helper()
	a := b.user.post(network, "/security-groups", doc{"security_group": doc{"name": name, "description": "made by a test"}})
	if id := a.word("security_group.id"); id != "" {
		b.discard(network, "/security-groups/"+id)
	}
	return a
}

var groupRows = []row{
	{"security groups may have the same name, and show their creation time", nothing, func(b *bench) {
		name := b.name()
		for range 2 {
			a := b.want(b.securityGroup(name), http.StatusCreated)
			b.same("rules that let out", len(a.rows("security_group.security_group_rules")), 2)
			if a.word("security_group.created_at") == "" {
				b.Errorf("answered %s", a.text)
			}
		}
		b.same("with the name", len(b.user.get(network, "/security-groups?name="+name).rows("security_groups")), 2)
	}},
	{"a security group may have a rule for its own members, and creating the same rule again is refused with 409", nothing, func(b *bench) {
		id := b.want(b.securityGroup(b.name()), http.StatusCreated).word("security_group.id")
		rule := doc{"security_group_rule": doc{"security_group_id": id, "direction": "ingress", "ethertype": "IPv4", "remote_group_id": id}}
		b.want(b.user.post(network, "/security-group-rules", rule), http.StatusCreated)
		b.want(b.user.post(network, "/security-group-rules", rule), http.StatusConflict, "SecurityGroupRuleExists")
	}},
	{"deleting a security group that a port uses is refused with 409", nothing, func(b *bench) {
		id := b.want(b.securityGroup(b.name()), http.StatusCreated).word("security_group.id")
		b.want(b.port(doc{"security_groups": []string{id}}), http.StatusCreated)
		b.want(b.user.delete(network, "/security-groups/"+id), http.StatusConflict, "SecurityGroupInUse")
	}},
	{"a server group has one policy from microversion 2.64 on, and a list of policies below 2.64", nothing, func(b *bench) {
		ask := func(version string, body doc) answer {
			body["name"] = b.name()
			a := b.user.post(compute, "/os-server-groups", doc{"server_group": body}, at(version))
			if id := a.word("server_group.id"); id != "" {
				b.discard(compute, "/os-server-groups/"+id)
			}
			return a
		}
		a := b.want(ask("2.64", doc{"policy": "soft-anti-affinity"}), http.StatusOK)
		b.same("policy", a.word("server_group.policy"), "soft-anti-affinity")
		a = b.want(ask("2.15", doc{"policies": []string{"soft-anti-affinity"}}), http.StatusOK)
		b.same("policies", a.at("server_group.policies"), "[soft-anti-affinity]")
		b.want(ask("2.1", doc{"policies": []string{"soft-anti-affinity"}}), http.StatusBadRequest)
		b.want(ask("2.64", doc{"policies": []string{"soft-anti-affinity"}}), http.StatusBadRequest)
		b.want(ask("2.15", doc{"policy": "soft-anti-affinity"}), http.StatusBadRequest)
	}},
	{"server groups may have the same name, and a GET of a deleted server group returns 404", nothing, func(b *bench) {
		name := b.name()
		for range 2 {
			a := b.want(b.user.post(compute, "/os-server-groups", doc{"server_group": doc{"name": name, "policies": []string{"affinity"}}}), http.StatusOK)
			b.discard(compute, "/os-server-groups/"+a.word("server_group.id"))
		}
		id, n := "", 0
		for _, g := range b.want(b.user.get(compute, "/os-server-groups"), http.StatusOK).rows("server_groups") {
			if g["name"] == name {
				id, n = g["id"].(string), n+1
			}
		}
		b.same("with the name", n, 2)
		b.want(b.user.delete(compute, "/os-server-groups/"+id), http.StatusNoContent)
		b.want(b.user.delete(compute, "/os-server-groups/"+id), http.StatusNotFound)
	}},
}
