package contract

import (
	"encoding/base64"
	"net/http"
	"strings"
)

var createRows = []row{
	{"a server has all properties that drover requests for it", nothing, everythingAskedFor},
	{"user data may have 65535 characters in base64, and a GET of the server does not show it", nothing, func(b *bench) {
		data := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 49149)))
		id := b.boot(wish{fields: doc{"user_data": data}})
		if a := b.user.get(compute, "/servers/"+id); strings.Contains(a.text, "user_data") {
			b.Error("user data is shown at 2.1")
		}
	}},
	{"Nova creates a port for a server on a network, and deletes it with the server", nothing, func(b *bench) {
		id := b.boot(wish{fields: doc{"networks": []doc{{"uuid": b.networkID(b.network)}}}})
		ports := b.want(b.user.get(network, "/ports?device_id="+id), http.StatusOK).rows("ports")
		b.same("ports", len(ports), 1)
		b.same("description", ports[0]["description"], "")
		b.remove(id)
		b.until("its port is gone", func() bool {
			return b.user.get(network, "/ports/"+ports[0]["id"].(string)).status == http.StatusNotFound
		})
	}},
	{"a server with two ports has two addresses, in the order of the requested ports", nothing, func(b *bench) {
		one, two := b.want(b.port(nil), http.StatusCreated), b.want(b.port(nil), http.StatusCreated)
		id := b.boot(wish{fields: doc{"networks": []doc{{"port": one.word("port.id")}, {"port": two.word("port.id")}}}})
		list := b.user.get(compute, "/servers/"+id).rows("server.addresses." + b.network)
		b.same("addresses", len(list), 2)
		b.same("first", list[0]["addr"], one.at("port.fixed_ips.0.ip_address"))
		b.same("second", list[1]["addr"], two.at("port.fixed_ips.0.ip_address"))
	}},
	{"a server stays a member of its soft-anti-affinity group until the server is deleted", nothing, func(b *bench) {
		group := b.serverGroup("soft-anti-affinity")
		id := b.boot(wish{hints: doc{"group": group}})
		members := func() string {
			return b.want(b.user.get(compute, "/os-server-groups/"+group), http.StatusOK).text
		}
		if !strings.Contains(members(), id) {
			b.Errorf("%s is not in %s", id, members())
		}
		b.remove(id)
		if strings.Contains(members(), id) {
			b.Errorf("%s is still in %s", id, members())
		}
	}},
}

// serverGroup creates a server group.
func (b *bench) serverGroup(policy string) string {
	b.Helper()
	a := b.want(b.user.post(compute, "/os-server-groups", doc{"server_group": doc{"name": b.name(), "policy": policy}}, at("2.64")), http.StatusOK)
	id := a.word("server_group.id")
	b.discard(compute, "/os-server-groups/"+id)
	return id
}

func everythingAskedFor(b *bench) {
	port := b.want(b.port(doc{"security_groups": []string{b.groupID()}}), http.StatusCreated)
	portID, address, name := port.word("port.id"), port.word("port.fixed_ips.0.ip_address"), b.name()
	group := b.serverGroup("soft-anti-affinity")
	a := b.want(b.server(wish{version: "2.67", hints: doc{"group": group}, fields: doc{
		"name": name, "networks": []doc{{"port": portID}}, "metadata": doc{"machine-uid": "one", "cluster": "two"}, "tags": []string{"plain"},
		"config_drive": true, "availability_zone": b.zone, "key_name": b.keyPair, "user_data": "I2Nsb3VkLWNvbmZpZwo=",
	}}), http.StatusAccepted)
	id := a.word("server.id")
	if id == "" || a.header.Get("Location") == "" {
		b.Errorf("answered %s, Location %q", a.text, a.header.Get("Location"))
	}
	b.status(id, "ACTIVE")
	a = b.want(b.user.get(compute, "/servers/"+id, at("2.67")), http.StatusOK)
	for field, want := range map[string]any{
		"name": name, "status": "ACTIVE", "OS-EXT-STS:task_state": nil, "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1,
		"metadata.machine-uid": "one", "metadata.cluster": "two", "tags": "[plain]", "config_drive": "True",
		"OS-EXT-AZ:availability_zone": b.zone, "key_name": b.keyPair, "tenant_id": b.user.project, "security_groups.0.name": b.group,
		"addresses." + b.network + ".0.addr": address, "addresses." + b.network + ".0.OS-EXT-IPS:type": "fixed",
		"os-extended-volumes:volumes_attached": "[]",
	} {
		b.same(field, a.at("server."+field), want)
	}
	if len(a.word("server.hostId")) != 56 {
		b.Errorf("hostId is %q", a.word("server.hostId"))
	}
	b.until("the port is up", func() bool { return b.user.get(network, "/ports/"+portID).word("port.status") == "ACTIVE" })
	a = b.user.get(network, "/ports/"+portID)
	b.same("device_id", a.word("port.device_id"), id)
	b.same("device_owner", a.word("port.device_owner"), "compute:"+b.zone)
}

const nowhere = "00000000-0000-0000-0000-00000000dead"

// refusals are requests for servers that Nova refuses with 400, by what is wrong in them.
var refusals = []struct {
	name  string
	wish  wish
	texts []string
}{
	{"a server with an unknown flavor is refused", wish{fields: doc{"flavorRef": nowhere}}, []string{"Flavor " + nowhere + " could not be found."}},
	{"a server with an unknown image is refused", wish{fields: doc{"imageRef": nowhere}}, []string{"Can not find requested image"}},
	{"a server with an unknown image for its boot volume is refused (F-130)", wish{version: "2.67", fields: doc{"imageRef": "", "block_device_mapping_v2": []doc{{
		"boot_index": 0, "uuid": nowhere, "source_type": "image", "destination_type": "volume", "volume_size": 20,
	}}}}, []string{"Block Device Mapping is Invalid: failed to get image " + nowhere}},
	{"a server with an image ID that is not a UUID is refused", wish{fields: doc{"imageRef": "nonsense"}}, []string{"imageRef", "'nonsense' is not valid under any of the given schemas"}},
	{"a server with an unknown key pair is refused", wish{fields: doc{"key_name": "no-such-key"}}, []string{"Invalid key_name provided."}},
	{"a server with an unknown network is refused", wish{fields: doc{"networks": []doc{{"uuid": nowhere}}}}, []string{"Network " + nowhere + " could not be found."}},
	{"a server with an unknown port is refused", wish{fields: doc{"networks": []doc{{"port": nowhere}}}}, []string{"Port id " + nowhere + " could not be found."}},
	{"a server in an unknown zone is refused", wish{fields: doc{"availability_zone": "nowhere"}}, []string{"The requested availability zone is not available"}},
	{"a server with an unknown server group is refused", wish{hints: doc{"group": nowhere}}, []string{"Instance group " + nowhere + " could not be found."}},
	{"a server with a server group ID that is not a UUID is refused", wish{hints: doc{"group": "nonsense"}}, []string{"'nonsense' is not a 'uuid'"}},
	{"a server with user data that is not base64 is refused", wish{fields: doc{"user_data": "abc"}}, []string{"is not a 'base64'"}},
	{"a server with user data that is too long is refused", wish{fields: doc{"user_data": strings.Repeat("x", 65536)}}, []string{"user_data", "is too long"}},
	{"a server with a metadata value that is too long is refused", wish{fields: doc{"metadata": doc{"k": strings.Repeat("x", 256)}}}, []string{"is too long"}},
	{"a server whose metadata key contains a slash is refused", wish{fields: doc{"metadata": doc{"a/b": "x"}}}, []string{"metadata", "a/b"}},
	{"a server whose tag contains a comma is refused", wish{version: "2.52", fields: doc{"tags": []string{"a,b"}}}, []string{"a,b"}},
	{"below microversion 2.52, a server with tags is refused", wish{version: "2.51", fields: doc{"networks": "none", "tags": []string{"a"}}}, []string{"Additional properties are not allowed ('tags' was unexpected)"}},
	{"a server with a field that does not exist is refused", wish{fields: doc{"flaverRef": "x"}}, []string{"Additional properties are not allowed ('flaverRef' was unexpected)"}},
	{"a server with an empty name is refused", wish{fields: doc{"name": ""}}, []string{"name"}},
	{"a server with a name that is too long is refused", wish{fields: doc{"name": strings.Repeat("x", 256)}}, []string{"is too long"}},
	{"from microversion 2.37 on, a server without networks is refused", wish{version: "2.37", fields: doc{"networks": nil}}, []string{"'networks' is a required property"}},
}

var refusalRows = []row{
	{"a request for a server with an invalid value is refused at once with 400 and Nova's error text", nothing, func(b *bench) {
		for _, r := range refusals {
			if _, given := r.wish.fields["networks"]; !given && r.name != "from microversion 2.37 on, a server without networks is refused" {
				if r.wish.fields == nil {
					r.wish.fields = doc{}
				}
				r.wish.fields["networks"] = []doc{{"uuid": b.networkID(b.network)}}
			}
			a := b.server(r.wish)
			if a.status != http.StatusBadRequest || a.at("badRequest.code") != 400.0 {
				b.Errorf("%s: got %d %.400s", r.name, a.status, a.text)
				continue
			}
			for _, text := range r.texts {
				if !strings.Contains(a.word("badRequest.message"), text) {
					b.Errorf("%s: %q is not in %.400s", r.name, text, a.text)
				}
			}
		}
	}},
	{"creating a server from an image is refused with 403 when the flavor has no disk, and needs a boot volume", aDisklessFlavor, func(b *bench) {
		a := b.want(b.server(wish{fields: doc{"flavorRef": b.flavorID(b.diskless)}}), http.StatusForbidden, "Only volume-backed servers are allowed for flavors with zero disk.")
		b.same("code", a.at("forbidden.code"), 403)
	}},
	{"creating a server on another server's port is refused with 409", nothing, func(b *bench) {
		port := b.portID()
		b.boot(wish{fields: doc{"networks": []doc{{"port": port}}}})
		a := b.want(b.server(wish{fields: doc{"networks": []doc{{"port": port}}}}), http.StatusConflict, "Port "+port+" is still in use.")
		b.same("code", a.at("conflictingRequest.code"), 409)
	}},
	{"creating a server is refused with 409 when two security groups have the requested name", nothing, func(b *bench) {
		name := b.name()
		b.securityGroup(name)
		b.securityGroup(name)
		b.want(b.server(wish{fields: doc{"networks": []doc{{"uuid": b.networkID(b.network)}}, "security_groups": []doc{{"name": name}}}}),
			http.StatusConflict, "Multiple security_group matches found for name '"+name+"', use an ID to be more specific.")
	}},
	{"Nova accepts a request for a server on an external network, and the server then goes to ERROR", nothing, func(b *bench) {
		id := b.want(b.server(wish{fields: doc{"networks": []doc{{"uuid": b.networkID(b.pool)}}}}), http.StatusAccepted).word("server.id")
		b.same("fault", b.status(id, "ERROR").word("server.fault.message"),
			"Build of instance "+id+" aborted: Failed to allocate the network(s), not rescheduling.")
	}},
	{"creating a server with too many metadata items is refused with 403", nothing, func(b *bench) {
		many := doc{}
		for len(many) < 129 {
			many[b.name()] = "x"
		}
		b.want(b.server(wish{fields: doc{"metadata": many}}), http.StatusForbidden, "Maximum number of metadata items exceeds 128")
	}},
	{"creating a server in a zone whose hosts are all disabled is refused with 400", operator, func(b *bench) {
		b.misfortune(b.T).disable(b.T, b.zone)
		b.until("the zone shows it", func() bool {
			for _, z := range b.user.get(compute, "/os-availability-zone").rows("availabilityZoneInfo") {
				if z["zoneName"] == b.zone {
					return answer{body: z}.at("zoneState.available") == false
				}
			}
			return false
		})
		b.want(b.server(wish{fields: doc{"availability_zone": b.zone}}), http.StatusBadRequest, "The requested availability zone is not available")
	}},
}
