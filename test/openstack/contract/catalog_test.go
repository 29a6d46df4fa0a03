package contract

import (
	"net/http"
	"net/url"
	"strings"
)

var versionRows = []row{
	{"Nova's endpoint lists the supported microversions", nothing, func(b *bench) {
		a := b.want(b.user.get(compute, "/"), http.StatusOK)
		b.same("oldest", a.word("version.min_version"), "2.1")
		if !strings.HasPrefix(a.word("version.version"), "2.") {
			b.Errorf("newest is %q", a.word("version.version"))
		}
	}},
	{"a response has the requested microversion, or 2.1 when the request names none", nothing, func(b *bench) {
		for asked, told := range map[string]string{"": "2.1", "2.61": "2.61", "2.93": "2.93"} {
			a := b.want(b.user.get(compute, "/servers", at(asked)), http.StatusOK)
			b.same("OpenStack-API-Version", a.header.Get("OpenStack-API-Version"), "compute "+told)
			b.same("X-OpenStack-Nova-API-Version", a.header.Get("X-OpenStack-Nova-API-Version"), told)
			b.same("Vary", strings.Join(a.header.Values("Vary"), ", "), "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
		}
	}},
	{"a microversion beyond the newest is refused with 406", nothing, func(b *bench) {
		newest := b.user.get(compute, "/").word("version.version")
		a := b.want(b.user.get(compute, "/servers", at("2.9999")), http.StatusNotAcceptable,
			"Version 2.9999 is not supported by the API. Minimum is 2.1 and maximum is "+newest+".")
		b.same("code", a.at("computeFault.code"), 406)
	}},
	{"a malformed microversion is refused with 400", nothing, func(b *bench) {
		b.want(b.user.get(compute, "/servers", at("new")), http.StatusBadRequest, "is of invalid format. Must be of format MajorNum.MinorNum.")
	}},
}

var lookupRows = []row{
	{"flavors show their size, and from microversion 2.61 on also their extra specs", nothing, func(b *bench) {
		for version, specs := range map[string]bool{"": false, "2.61": true} {
			for _, f := range b.want(b.user.get(compute, "/flavors/detail", at(version)), http.StatusOK).rows("flavors") {
				_, has := f["extra_specs"].(doc)
				if _, known := f["extra_specs"]; known != specs || has != specs {
					b.Errorf("at %q extra_specs of %s is %v", version, f["name"], f["extra_specs"])
				}
				for _, field := range []string{"vcpus", "ram", "disk"} {
					if _, number := f[field].(float64); !number {
						b.Errorf("%s of %s is %v", field, f["name"], f[field])
					}
				}
			}
		}
	}},
	{"images, networks, subnets and security groups are found by their full name and by ID", nothing, byNameAndID},
	{"Glance takes text before a colon in a filter by name for an operator: it knows eq and in, and refuses others with 400", nothing, func(b *bench) {
		name := b.name() + ": a,b"
		id := b.newImage(b.user, name, "private")
		b.want(b.imagesWith(b.user, "name="+url.QueryEscape(name)), http.StatusBadRequest, "Unable to filter by unknown operator")
		for filter, found := range map[string]int{"eq:" + name: 1, `in:"` + name + `","x"`: 1, "in:" + name: 0, "eq:" + name + "x": 0} {
			a := b.want(b.imagesWith(b.user, "name="+url.QueryEscape(filter)), http.StatusOK)
			if b.same(filter, len(a.rows("images")), found); found == 1 {
				b.same("id", a.word("images.0.id"), id)
			}
		}
	}},
	{"Neutron compares a filter by name with the whole name, takes commas and colons as they are, and several filters as alternatives", nothing, func(b *bench) {
		mark := b.name()
		one, other := mark+",eq:one", mark+"-other.*"
		for _, name := range []string{one, other} {
			b.want(b.port(doc{"name": name}), http.StatusCreated)
		}
		both := url.Values{"name": {one, other}}.Encode()
		for query, found := range map[string]int{
			"name=" + url.QueryEscape(one): 1, "name=" + url.QueryEscape(other): 1, "name=" + url.QueryEscape(mark): 0, both: 2,
			"name=" + url.QueryEscape("in:"+one): 0,
		} {
			b.same(query, len(b.want(b.user.get(network, "/ports?"+query), http.StatusOK).rows("ports")), found)
		}
	}},
	{"a network's field router:external shows whether the network is external", nothing, func(b *bench) {
		for name, outside := range map[string]bool{b.network: false, b.pool: true} {
			a := b.want(b.user.get(network, "/networks?name="+url.QueryEscape(name)), http.StatusOK)
			b.same("router:external of "+name, a.at("networks.0.router:external"), outside)
		}
	}},
	{"a zone reports whether it is available", nothing, func(b *bench) {
		a := b.want(b.user.get(compute, "/os-availability-zone"), http.StatusOK)
		for _, z := range a.rows("availabilityZoneInfo") {
			if z["zoneName"] == b.zone {
				b.same("available", answer{body: z}.at("zoneState.available"), true)
				b.same("hosts", z["hosts"], nil)
				return
			}
		}
		b.Errorf("no zone %s in %s", b.zone, a.text)
	}},
	{"a GET by an unknown ID returns 404 with the error text of the service", nothing, func(b *bench) {
		const no = "00000000-0000-0000-0000-00000000dead"
		b.want(b.user.get(compute, "/servers/"+no), http.StatusNotFound, `"itemNotFound"`, "Instance "+no+" could not be found.")
		b.want(b.user.get(compute, "/os-server-groups/"+no), http.StatusNotFound, `"itemNotFound"`, "Instance group "+no+" could not be found.")
		b.want(b.user.get(network, "/ports/"+no), http.StatusNotFound, `"PortNotFound"`, "Port "+no+" could not be found.")
		b.want(b.user.get(network, "/networks/"+no), http.StatusNotFound, `"NetworkNotFound"`, "Network "+no+" could not be found.")
		b.want(b.user.get(network, "/subnets/"+no), http.StatusNotFound, `"SubnetNotFound"`, "Subnet "+no+" could not be found.")
		b.want(b.user.get(network, "/floatingips/"+no), http.StatusNotFound, `"FloatingIPNotFound"`, "Floating IP "+no+" could not be found")
		b.want(b.user.get(network, "/security-groups/"+no), http.StatusNotFound, `"SecurityGroupNotFound"`, "Security group "+no+" does not exist")
		b.want(b.user.get(image, "/images/"+no), http.StatusNotFound)
	}},
	{"Nova's limits show the project's quota and how much of it is used", nothing, func(b *bench) {
		before := b.want(b.user.get(compute, "/limits"), http.StatusOK)
		b.boot(wish{})
		after := b.want(b.user.get(compute, "/limits"), http.StatusOK)
		for _, field := range []string{"maxTotalInstances", "maxTotalCores", "maxTotalRAMSize"} {
			if _, number := after.at("limits.absolute." + field).(float64); !number {
				b.Errorf("%s is %v", field, after.at("limits.absolute."+field))
			}
		}
		used, _ := before.at("limits.absolute.totalInstancesUsed").(float64)
		b.same("totalInstancesUsed", after.at("limits.absolute.totalInstancesUsed"), used+1)
	}},
	{"Neutron's quota details show how many ports are in use", nothing, func(b *bench) {
		path := "/quotas/" + b.user.project + "/details.json"
		before, _ := b.want(b.user.get(network, path), http.StatusOK).at("quota.port.used").(float64)
		b.portID()
		after := b.want(b.user.get(network, path), http.StatusOK)
		b.same("used", after.at("quota.port.used"), before+1)
		if _, number := after.at("quota.port.limit").(float64); !number {
			b.Errorf("limit is %v", after.at("quota.port.limit"))
		}
	}},
}

// newImage creates an image without data, which exists until the test ends.
func (b *bench) newImage(c *client, name, visibility string) (id string) {
	b.Helper()
	body := doc{"name": name, "visibility": visibility, "disk_format": "raw", "container_format": "bare"}
	id = b.want(c.post(image, "/images", body), http.StatusCreated).word("id")
	b.Cleanup(func() { c.delete(image, "/images/"+id) })
	return id
}

// imagesWith lists the images that match a query.
func (b *bench) imagesWith(c *client, query string) answer {
	b.Helper()
	return c.get(image, "/images?"+query)
}

func byNameAndID(b *bench) {
	for _, c := range []struct{ service, path, field, name string }{
		{image, "/images", "images", b.image}, {network, "/networks", "networks", b.network},
		{network, "/subnets", "subnets", b.subnet}, {network, "/security-groups", "security_groups", b.group},
	} {
		a := b.want(b.user.get(c.service, c.path+"?name="+url.QueryEscape(c.name)), http.StatusOK)
		if len(a.rows(c.field)) != 1 {
			b.Fatalf("%s with the name %s: %s", c.path, c.name, a.text)
		}
		id := a.word(c.field + ".0.id")
		a = b.want(b.user.get(c.service, c.path+"?id="+id), http.StatusOK)
		b.same(c.path+" by ID", a.word(c.field+".0.name"), c.name)
		b.same(c.path+" with another name", len(b.user.get(c.service, c.path+"?name="+c.name+"x").rows(c.field)), 0)
		b.same(c.path+" with a part of the name", len(b.user.get(c.service, c.path+"?name="+c.name[:2]).rows(c.field)), 0)
	}
}
