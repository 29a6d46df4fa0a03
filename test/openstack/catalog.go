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

func (svc *inventory) routes(rt *router) {
	n := serviceCompute
	rt.add(n, http.MethodGet, "/flavors", svc.listFlavors)
	rt.add(n, http.MethodGet, "/flavors/detail", svc.listFlavorsDetail)
	rt.add(n, http.MethodGet, "/flavors/{id}", svc.showFlavor)
	rt.add(n, http.MethodGet, "/flavors/{id}/os-extra_specs", svc.showExtraSpecs)
	rt.add(n, http.MethodGet, "/os-availability-zone", svc.listZones)
	rt.add(n, http.MethodGet, "/limits", svc.showLimits)
	rt.add(n, http.MethodGet, "/os-quota-sets/{project}", svc.showQuotaSet)
	rt.add(n, http.MethodGet, "/os-keypairs", svc.listKeyPairs)
	rt.add(n, http.MethodPost, "/os-keypairs", svc.createKeyPair)
	rt.add(n, http.MethodGet, "/os-keypairs/{name}", svc.showKeyPair)
	rt.add(n, http.MethodDelete, "/os-keypairs/{name}", svc.deleteKeyPair)
	rt.add(n, http.MethodGet, "/os-server-groups", svc.listServerGroups)
	rt.add(n, http.MethodPost, "/os-server-groups", svc.createServerGroup)
	rt.add(n, http.MethodGet, "/os-server-groups/{id}", svc.showServerGroup)
	rt.add(n, http.MethodDelete, "/os-server-groups/{id}", svc.deleteServerGroup)
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

func (svc *inventory) visibleFlavors(q *request) []*Flavor {
	var out []*Flavor
	for _, f := range svc.flavors.all() {
		if f.seenBy(q.caller.projectName) {
			out = append(out, f)
		}
	}
	return out
}

func (svc *inventory) listFlavors(q *request) reply {
	list := []object{}
	for _, f := range svc.visibleFlavors(q) {
		list = append(list, q.flavorView(f).pick([]string{"id", "name", "links", "description"}))
	}
	return ok("flavors", list)
}

func (svc *inventory) listFlavorsDetail(q *request) reply {
	list := []object{}
	for _, f := range svc.visibleFlavors(q) {
		list = append(list, q.flavorView(f))
	}
	return ok("flavors", list)
}

func (svc *inventory) flavorByID(q *request) (*Flavor, reply) {
	f, known := svc.flavors.get(q.PathValue("id"))
	if !known || !f.seenBy(q.caller.projectName) {
		return nil, q.refuse(http.StatusNotFound, "Flavor %s could not be found.", q.PathValue("id"))
	}
	return f, reply{}
}

func (svc *inventory) showFlavor(q *request) reply {
	f, refused := svc.flavorByID(q)
	if f == nil {
		return refused
	}
	return ok("flavor", q.flavorView(f))
}

func (svc *inventory) showExtraSpecs(q *request) reply {
	f, refused := svc.flavorByID(q)
	if f == nil {
		return refused
	}
	return ok("extra_specs", metadataView(f.ExtraSpecs))
}

func (svc *inventory) listZones(_ *request) reply {
	var names []string
	available := map[string]bool{}
	for _, h := range svc.hosts {
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

func (svc *inventory) showLimits(q *request) reply {
	quota, used := svc.quotas.of(q.project()), svc.usage[q.project()]
	if used == nil {
		used = &usage{}
	}
	groups := 0
	for _, g := range svc.groups.all() {
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

func (svc *inventory) showQuotaSet(q *request) reply {
	if q.PathValue("project") != q.project() {
		return q.refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:os-quota-sets:show to be performed.")
	}
	quota := svc.quotas.of(q.project())
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

func (svc *inventory) listKeyPairs(q *request) reply {
	list := []object{}
	for _, k := range svc.keyPairs.all() {
		if k.user == q.caller.user {
			list = append(list, object{{"keypair", k.view(q)}})
		}
	}
	return ok("keypairs", list)
}

func (svc *inventory) createKeyPair(q *request) reply {
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
	id := keyID(q.caller.user, in.KeyPair.Name)
	if _, known := svc.keyPairs.get(id); known {
		return q.refuse(http.StatusConflict, "Key pair '%s' already exists.", in.KeyPair.Name)
	}
	k := &keyPair{name: in.KeyPair.Name, user: q.caller.user, publicKey: in.KeyPair.PublicKey}
	svc.keyPairs.put(id, k)
	status := http.StatusOK
	if q.version.atLeast(2, 2) {
		status = http.StatusCreated
	}
	return reply{status: status, body: object{{"keypair", k.view(q)}}}
}

func (svc *inventory) keyPairByName(q *request) (*keyPair, reply) {
	k, known := svc.keyPairs.get(keyID(q.caller.user, q.PathValue("name")))
	if !known {
		return nil, q.refuse(http.StatusNotFound, "Keypair %s not found for user %s", q.PathValue("name"), q.caller.user)
	}
	return k, reply{}
}

func (svc *inventory) showKeyPair(q *request) reply {
	k, refused := svc.keyPairByName(q)
	if k == nil {
		return refused
	}
	return ok("keypair", k.view(q))
}

func (svc *inventory) deleteKeyPair(q *request) reply {
	k, refused := svc.keyPairByName(q)
	if k == nil {
		return refused
	}
	svc.keyPairs.remove(keyID(k.user, k.name))
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

func (svc *inventory) listServerGroups(q *request) reply {
	list := []object{}
	for _, g := range svc.groups.all() {
		if g.project == q.project() {
			list = append(list, g.view(q))
		}
	}
	return ok("server_groups", list)
}

var policies = []string{"affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"}

func (svc *inventory) createServerGroup(q *request) reply {
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
	for _, g := range svc.groups.all() {
		if g.project == q.project() {
			count++
		}
	}
	if beyond(svc.quotas.of(q.project()).ServerGroups, count+1) {
		return q.refuse(http.StatusForbidden, "Quota exceeded, too many server groups.")
	}
	g := &serverGroup{id: svc.kernel.newID(), name: in.Group.Name, project: q.project(), user: q.caller.user, policy: policy, perHost: map[string]int{}}
	svc.groups.put(g.id, g)
	return ok("server_group", g.view(q))
}

func (svc *inventory) groupByID(q *request) (*serverGroup, reply) {
	g, known := svc.groups.get(q.PathValue("id"))
	if !known || g.project != q.project() {
		return nil, q.refuse(http.StatusNotFound, "Instance group %s could not be found.", q.PathValue("id"))
	}
	return g, reply{}
}

func (svc *inventory) showServerGroup(q *request) reply {
	g, refused := svc.groupByID(q)
	if g == nil {
		return refused
	}
	return ok("server_group", g.view(q))
}

func (svc *inventory) deleteServerGroup(q *request) reply {
	g, refused := svc.groupByID(q)
	if g == nil {
		return refused
	}
	svc.groups.remove(g.id)
	return empty(http.StatusNoContent)
}
