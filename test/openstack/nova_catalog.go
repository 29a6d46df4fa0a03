package openstack

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Flavor is a server size.
type Flavor struct {
	// ID; empty: made up.
	ID, Name string
	VCPUs    int
	// RAM and Swap are in MiB; Disk and Ephemeral in GiB.
	RAM, Disk, Ephemeral, Swap int
	ExtraSpecs                 map[string]string
	// Project, when named, is the only one that sees it.
	Project string
}

func (f *Flavor) seenBy(project string) bool { return f.Project == "" || f.Project == project }

type keyPair struct{ name, user, publicKey string }

func keyID(user, name string) string { return user + "/" + name }

type serverGroup struct {
	id, name, project, user, policy string
	members                         []string
	perHost                         map[string]int
}

func (g *serverGroup) join(id string) { g.members = append(g.members, id) }
func (g *serverGroup) leave(id string) {
	g.members = slices.DeleteFunc(g.members, func(m string) bool { return m == id })
}

func computeRoutes(rt *router) {
	n := serviceCompute
	rt.add(n, http.MethodGet, "/flavors", listFlavors)
	rt.add(n, http.MethodGet, "/flavors/detail", listFlavorsDetail)
	rt.add(n, http.MethodGet, "/flavors/{id}", showFlavor)
	rt.add(n, http.MethodGet, "/flavors/{id}/os-extra_specs", showExtraSpecs)
	rt.add(n, http.MethodGet, "/os-availability-zone", listZones)
	rt.add(n, http.MethodGet, "/limits", showLimits)
	rt.add(n, http.MethodGet, "/os-quota-sets/{project}", showQuotaSet)
	rt.add(n, http.MethodGet, "/os-keypairs", listKeyPairs)
	rt.add(n, http.MethodPost, "/os-keypairs", createKeyPair)
	rt.add(n, http.MethodGet, "/os-keypairs/{name}", showKeyPair)
	rt.add(n, http.MethodDelete, "/os-keypairs/{name}", deleteKeyPair)
	rt.add(n, http.MethodGet, "/os-server-groups", listServerGroups)
	rt.add(n, http.MethodPost, "/os-server-groups", createServerGroup)
	rt.add(n, http.MethodGet, "/os-server-groups/{id}", showServerGroup)
	rt.add(n, http.MethodDelete, "/os-server-groups/{id}", deleteServerGroup)
}

func (q *request) flavorView(f *Flavor) object {
	var swap any = ""
	if f.Swap > 0 || q.version.atLeast(2, 75) {
		swap = f.Swap
	}
	o := object{
		{"id", f.ID}, {"name", f.Name}, {"vcpus", f.VCPUs}, {"ram", f.RAM}, {"disk", f.Disk}, {"swap", swap}, {"rxtx_factor", 1.0},
		{"OS-FLV-EXT-DATA:ephemeral", f.Ephemeral}, {"OS-FLV-DISABLED:disabled", false}, {"os-flavor-access:is_public", f.Project == ""},
		{"links", []object{{{"rel", "self"}, {"href", q.base + "/compute/v2.1/flavors/" + f.ID}}}},
	}
	if q.version.atLeast(2, 55) {
		o = append(o, member{"description", nil})
	}
	if q.version.atLeast(2, 61) {
		o = append(o, member{"extra_specs", metadataView(f.ExtraSpecs)})
	}
	return o
}

func (c *Cloud) visibleFlavors(q *request) []*Flavor {
	var out []*Flavor
	for _, f := range c.compute.flavors.all() {
		if f.seenBy(q.token.project.Name) {
			out = append(out, f)
		}
	}
	return out
}

func listFlavors(c *Cloud, q *request) reply {
	list := []object{}
	for _, f := range c.visibleFlavors(q) {
		list = append(list, q.flavorView(f).pick([]string{"id", "name", "links", "description"}))
	}
	return ok("flavors", list)
}

func listFlavorsDetail(c *Cloud, q *request) reply {
	list := []object{}
	for _, f := range c.visibleFlavors(q) {
		list = append(list, q.flavorView(f))
	}
	return ok("flavors", list)
}

func (c *Cloud) flavorByID(q *request) (*Flavor, reply) {
	f, known := c.compute.flavors.get(q.PathValue("id"))
	if !known || !f.seenBy(q.token.project.Name) {
		return nil, q.refuse(http.StatusNotFound, "Flavor %s could not be found.", q.PathValue("id"))
	}
	return f, reply{}
}

func showFlavor(c *Cloud, q *request) reply {
	f, refused := c.flavorByID(q)
	if f == nil {
		return refused
	}
	return ok("flavor", q.flavorView(f))
}

func showExtraSpecs(c *Cloud, q *request) reply {
	f, refused := c.flavorByID(q)
	if f == nil {
		return refused
	}
	return ok("extra_specs", metadataView(f.ExtraSpecs))
}

func listZones(c *Cloud, _ *request) reply {
	var names []string
	available := map[string]bool{}
	for _, h := range c.compute.hosts {
		if !slices.Contains(names, h.Zone) {
			names = append(names, h.Zone)
		}
		available[h.Zone] = available[h.Zone] || h.usable()
	}
	list := make([]object, 0, len(names))
	for _, n := range names {
		list = append(list, object{{"zoneName", n}, {"zoneState", object{{"available", available[n]}}}, {"hosts", nil}})
	}
	return ok("availabilityZoneInfo", list)
}

func showLimits(c *Cloud, q *request) reply {
	quota, used := c.quotaOf(q.project()), c.compute.usage[q.project()]
	if used == nil {
		used = &usage{}
	}
	groups := 0
	for _, g := range c.compute.groups.all() {
		if g.project == q.project() {
			groups++
		}
	}
	absolute := object{
		{"maxTotalInstances", shown(quota.Instances)}, {"maxTotalCores", shown(quota.Cores)}, {"maxTotalRAMSize", shown(quota.RAM)},
		{"totalInstancesUsed", used.instances}, {"totalCoresUsed", used.cores}, {"totalRAMUsed", used.ram},
		{"maxServerGroups", shown(quota.ServerGroups)}, {"maxServerGroupMembers", shown(quota.ServerGroupMembers)},
		{"totalServerGroupsUsed", groups}, {"maxServerMeta", 128}, {"maxTotalKeypairs", 100},
	}
	if !q.version.atLeast(2, 36) {
		absolute = append(absolute, object{
			{"maxTotalFloatingIps", -1}, {"totalFloatingIpsUsed", 0}, {"maxSecurityGroups", -1}, {"maxSecurityGroupRules", -1},
			{"totalSecurityGroupsUsed", 0}, {"maxImageMeta", 128},
		}...)
	}
	return ok("limits", object{{"absolute", absolute}, {"rate", []object{}}})
}

func showQuotaSet(c *Cloud, q *request) reply {
	if q.PathValue("project") != q.project() {
		return q.refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:os-quota-sets:show to be performed.")
	}
	quota := c.quotaOf(q.project())
	return ok("quota_set", object{
		{"id", q.project()}, {"instances", shown(quota.Instances)}, {"cores", shown(quota.Cores)}, {"ram", shown(quota.RAM)},
		{"server_groups", shown(quota.ServerGroups)}, {"server_group_members", shown(quota.ServerGroupMembers)},
		{"metadata_items", 128}, {"key_pairs", 100},
	})
}

func (k *keyPair) view(q *request) object {
	sum := sha256.Sum256([]byte(k.publicKey))
	var pairs []string
	for _, b := range sum[:16] {
		pairs = append(pairs, fmt.Sprintf("%02x", b))
	}
	o := object{{"name", k.name}, {"public_key", k.publicKey}, {"fingerprint", strings.Join(pairs, ":")}, {"user_id", k.user}}
	if q.version.atLeast(2, 2) {
		o = append(o, member{"type", "ssh"})
	}
	return o
}

func listKeyPairs(c *Cloud, q *request) reply {
	list := []object{}
	for _, k := range c.compute.keyPairs.all() {
		if k.user == q.token.user.ID {
			list = append(list, object{{"keypair", k.view(q)}})
		}
	}
	return ok("keypairs", list)
}

func createKeyPair(c *Cloud, q *request) reply {
	var in struct {
		KeyPair struct {
			Name      string `json:"name"`
			PublicKey string `json:"public_key"`
			Type      string `json:"type"`
		} `json:"keypair"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	id := keyID(q.token.user.ID, in.KeyPair.Name)
	if _, known := c.compute.keyPairs.get(id); known {
		return q.refuse(http.StatusConflict, "Key pair '%s' already exists.", in.KeyPair.Name)
	}
	k := &keyPair{name: in.KeyPair.Name, user: q.token.user.ID, publicKey: in.KeyPair.PublicKey}
	c.compute.keyPairs.put(id, k)
	status := http.StatusOK
	if q.version.atLeast(2, 2) {
		status = http.StatusCreated
	}
	return reply{status: status, body: object{{"keypair", k.view(q)}}}
}

func (c *Cloud) keyPairByName(q *request) (*keyPair, reply) {
	k, known := c.compute.keyPairs.get(keyID(q.token.user.ID, q.PathValue("name")))
	if !known {
		return nil, q.refuse(http.StatusNotFound, "Keypair %s not found for user %s", q.PathValue("name"), q.token.user.ID)
	}
	return k, reply{}
}

func showKeyPair(c *Cloud, q *request) reply {
	k, refused := c.keyPairByName(q)
	if k == nil {
		return refused
	}
	return ok("keypair", k.view(q))
}

func deleteKeyPair(c *Cloud, q *request) reply {
	k, refused := c.keyPairByName(q)
	if k == nil {
		return refused
	}
	c.compute.keyPairs.remove(keyID(k.user, k.name))
	return empty(http.StatusNoContent)
}

// view shows one policy and rules from 2.64 on, a list of policies below.
func (g *serverGroup) view(q *request) object {
	o := object{{"id", g.id}, {"name", g.name}, {"members", append([]string{}, g.members...)}}
	if q.version.atLeast(2, 13) {
		o = append(o, member{"project_id", g.project}, member{"user_id", g.user})
	}
	if q.version.atLeast(2, 64) {
		return append(o, member{"policy", g.policy}, member{"rules", object{}})
	}
	return append(o, member{"policies", []string{g.policy}}, member{"metadata", object{}})
}

func listServerGroups(c *Cloud, q *request) reply {
	list := []object{}
	for _, g := range c.compute.groups.all() {
		if g.project == q.project() {
			list = append(list, g.view(q))
		}
	}
	return ok("server_groups", list)
}

var policies = []string{"affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"}

func createServerGroup(c *Cloud, q *request) reply {
	var in struct {
		Group struct {
			Name     string         `json:"name"`
			Policies []string       `json:"policies"`
			Policy   string         `json:"policy"`
			Rules    map[string]int `json:"rules"`
		} `json:"server_group"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	policy := in.Group.Policy
	if len(in.Group.Policies) == 1 {
		policy = in.Group.Policies[0]
	}
	modern := q.version.atLeast(2, 64)
	soft := strings.HasPrefix(policy, "soft-") && !q.version.atLeast(2, 15)
	if !slices.Contains(policies, policy) || modern != (in.Group.Policy != "") || soft {
		return q.refuse(http.StatusBadRequest, "Invalid input for field/attribute server_group. Value: {...}. policy %q is not valid at %s", policy, q.version)
	}
	count := 0
	for _, g := range c.compute.groups.all() {
		if g.project == q.project() {
			count++
		}
	}
	if beyond(c.quotaOf(q.project()).ServerGroups, count+1) {
		return q.refuse(http.StatusForbidden, "Quota exceeded, too many server groups.")
	}
	g := &serverGroup{id: c.newID(), name: in.Group.Name, project: q.project(), user: q.token.user.ID, policy: policy, perHost: map[string]int{}}
	c.compute.groups.put(g.id, g)
	return ok("server_group", g.view(q))
}

func (c *Cloud) groupByID(q *request) (*serverGroup, reply) {
	g, known := c.compute.groups.get(q.PathValue("id"))
	if !known || g.project != q.project() {
		return nil, q.refuse(http.StatusNotFound, "Instance group %s could not be found.", q.PathValue("id"))
	}
	return g, reply{}
}

func showServerGroup(c *Cloud, q *request) reply {
	g, refused := c.groupByID(q)
	if g == nil {
		return refused
	}
	return ok("server_group", g.view(q))
}

func deleteServerGroup(c *Cloud, q *request) reply {
	g, refused := c.groupByID(q)
	if g == nil {
		return refused
	}
	c.compute.groups.remove(g.id)
	return empty(http.StatusNoContent)
}
