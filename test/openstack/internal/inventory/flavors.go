package inventory

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// Flavor is a server size.
type Flavor struct {
	// ID and Name identify the flavor. An empty ID means a generated one.
	ID, Name string
	VCPUs    int
	// RAM and Swap are in MiB; Disk and Ephemeral in GiB.
	RAM, Disk, Ephemeral, Swap int
	ExtraSpecs                 map[string]string
	// Project is a project's name. If it is set, only this project sees the flavor.
	Project string
}

// SeenBy reports whether the project with the name sees the flavor.
func (f *Flavor) SeenBy(project string) bool { return f.Project == "" || f.Project == project }

// KeyPair is a public key of a user.
type KeyPair struct{ Name, user, PublicKey string }

func keyID(user, name string) string { return user + "/" + name }

// ServerGroup is a server group and its members.
type ServerGroup struct {
	ID, name, Project, user, policy string
	Members                         []string
	perHost                         map[string]int
}

// Join adds a server to the group.
func (g *ServerGroup) Join(id string) { g.Members = append(g.Members, id) }

// Leave removes a server from the group.
func (g *ServerGroup) Leave(id string) {
	g.Members = slices.DeleteFunc(g.Members, func(m string) bool { return m == id })
}

// Routes adds the calls about the inventory that Nova answers.
func (svc *Service) Routes(rt *api.Router) {
	n := api.ServiceCompute
	rt.Add(n, http.MethodGet, "/flavors", svc.listFlavors)
	rt.Add(n, http.MethodGet, "/flavors/detail", svc.listFlavorsDetail)
	rt.Add(n, http.MethodGet, "/flavors/{id}", svc.showFlavor)
	rt.Add(n, http.MethodGet, "/flavors/{id}/os-extra_specs", svc.showExtraSpecs)
	rt.Add(n, http.MethodGet, "/os-availability-zone", svc.listZones)
	rt.Add(n, http.MethodGet, "/limits", svc.showLimits)
	rt.Add(n, http.MethodGet, "/os-quota-sets/{project}", svc.showQuotaSet)
	rt.Add(n, http.MethodGet, "/os-keypairs", svc.listKeyPairs)
	rt.Add(n, http.MethodPost, "/os-keypairs", svc.createKeyPair)
	rt.Add(n, http.MethodGet, "/os-keypairs/{name}", svc.showKeyPair)
	rt.Add(n, http.MethodDelete, "/os-keypairs/{name}", svc.deleteKeyPair)
	rt.Add(n, http.MethodGet, "/os-server-groups", svc.listServerGroups)
	rt.Add(n, http.MethodPost, "/os-server-groups", svc.createServerGroup)
	rt.Add(n, http.MethodGet, "/os-server-groups/{id}", svc.showServerGroup)
	rt.Add(n, http.MethodDelete, "/os-server-groups/{id}", svc.deleteServerGroup)
}

func (f *Flavor) view(q *api.Request) wire.Object {
	var swap any = ""
	if f.Swap > 0 || q.Version.AtLeast(2, 75) {
		swap = f.Swap
	}
	o := wire.Object{
		{"id", f.ID}, {"name", f.Name}, {"vcpus", f.VCPUs}, {"ram", f.RAM}, {"disk", f.Disk}, {"swap", swap}, {"rxtx_factor", 1.0},
		{"OS-FLV-EXT-DATA:ephemeral", f.Ephemeral}, {"OS-FLV-DISABLED:disabled", false}, {"os-flavor-access:is_public", f.Project == ""},
		{"links", []wire.Object{{{"rel", "self"}, {"href", q.Base + "/compute/v2.1/flavors/" + f.ID}}}},
	}
	if q.Version.AtLeast(2, 55) {
		o = append(o, wire.Member{"description", nil})
	}
	if q.Version.AtLeast(2, 61) {
		o = append(o, wire.Member{"extra_specs", wire.MetadataView(f.ExtraSpecs)})
	}
	return o
}

func (svc *Service) visibleFlavors(q *api.Request) []*Flavor {
	var out []*Flavor
	for _, f := range svc.flavors.All() {
		if f.SeenBy(q.Caller.ProjectName) {
			out = append(out, f)
		}
	}
	return out
}

func (svc *Service) listFlavors(q *api.Request) api.Reply {
	list := []wire.Object{}
	for _, f := range svc.visibleFlavors(q) {
		list = append(list, f.view(q).Pick([]string{"id", "name", "links", "description"}))
	}
	return api.Ok("flavors", list)
}

func (svc *Service) listFlavorsDetail(q *api.Request) api.Reply {
	list := []wire.Object{}
	for _, f := range svc.visibleFlavors(q) {
		list = append(list, f.view(q))
	}
	return api.Ok("flavors", list)
}

func (svc *Service) flavorByID(q *api.Request) (*Flavor, api.Reply) {
	f, known := svc.flavors.Get(q.PathValue("id"))
	if !known || !f.SeenBy(q.Caller.ProjectName) {
		return nil, q.Refuse(http.StatusNotFound, "Flavor %s could not be found.", q.PathValue("id"))
	}
	return f, api.Reply{}
}

func (svc *Service) showFlavor(q *api.Request) api.Reply {
	f, refused := svc.flavorByID(q)
	if f == nil {
		return refused
	}
	return api.Ok("flavor", f.view(q))
}

func (svc *Service) showExtraSpecs(q *api.Request) api.Reply {
	f, refused := svc.flavorByID(q)
	if f == nil {
		return refused
	}
	return api.Ok("extra_specs", wire.MetadataView(f.ExtraSpecs))
}

func (svc *Service) listZones(_ *api.Request) api.Reply {
	var names []string
	available := map[string]bool{}
	for _, h := range svc.hosts {
		if !slices.Contains(names, h.Zone) {
			names = append(names, h.Zone)
		}
		available[h.Zone] = available[h.Zone] || h.usable()
	}
	list := make([]wire.Object, 0, len(names))
	for _, n := range names {
		list = append(list, wire.Object{{"zoneName", n}, {"zoneState", wire.Object{{"available", available[n]}}}, {"hosts", nil}})
	}
	return api.Ok("availabilityZoneInfo", list)
}

func (svc *Service) showLimits(q *api.Request) api.Reply {
	quota, used := svc.quotas.Of(q.Project()), svc.usage[q.Project()]
	if used == nil {
		used = &usage{}
	}
	groups := 0
	for _, g := range svc.groups.All() {
		if g.Project == q.Project() {
			groups++
		}
	}
	absolute := wire.Object{
		{"maxTotalInstances", quotas.Shown(quota.Instances)}, {"maxTotalCores", quotas.Shown(quota.Cores)}, {"maxTotalRAMSize", quotas.Shown(quota.RAM)},
		{"totalInstancesUsed", used.instances}, {"totalCoresUsed", used.cores}, {"totalRAMUsed", used.ram},
		{"maxServerGroups", quotas.Shown(quota.ServerGroups)}, {"maxServerGroupMembers", quotas.Shown(quota.ServerGroupMembers)},
		{"totalServerGroupsUsed", groups}, {"maxServerMeta", 128}, {"maxTotalKeypairs", 100},
	}
	if !q.Version.AtLeast(2, 36) {
		absolute = append(absolute, wire.Object{
			{"maxTotalFloatingIps", -1}, {"totalFloatingIpsUsed", 0}, {"maxSecurityGroups", -1}, {"maxSecurityGroupRules", -1},
			{"totalSecurityGroupsUsed", 0}, {"maxImageMeta", 128},
		}...)
	}
	return api.Ok("limits", wire.Object{{"absolute", absolute}, {"rate", []wire.Object{}}})
}

func (svc *Service) showQuotaSet(q *api.Request) api.Reply {
	if q.PathValue("project") != q.Project() {
		return q.Refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:os-quota-sets:show to be performed.")
	}
	quota := svc.quotas.Of(q.Project())
	return api.Ok("quota_set", wire.Object{
		{"id", q.Project()}, {"instances", quotas.Shown(quota.Instances)}, {"cores", quotas.Shown(quota.Cores)}, {"ram", quotas.Shown(quota.RAM)},
		{"server_groups", quotas.Shown(quota.ServerGroups)}, {"server_group_members", quotas.Shown(quota.ServerGroupMembers)},
		{"metadata_items", 128}, {"key_pairs", 100},
	})
}

func (k *KeyPair) view(q *api.Request) wire.Object {
	sum := sha256.Sum256([]byte(k.PublicKey))
	var pairs []string
	for _, b := range sum[:16] {
		pairs = append(pairs, fmt.Sprintf("%02x", b))
	}
	o := wire.Object{{"name", k.Name}, {"public_key", k.PublicKey}, {"fingerprint", strings.Join(pairs, ":")}, {"user_id", k.user}}
	if q.Version.AtLeast(2, 2) {
		o = append(o, wire.Member{"type", "ssh"})
	}
	return o
}

func (svc *Service) listKeyPairs(q *api.Request) api.Reply {
	list := []wire.Object{}
	for _, k := range svc.keyPairs.All() {
		if k.user == q.Caller.User {
			list = append(list, wire.Object{{"keypair", k.view(q)}})
		}
	}
	return api.Ok("keypairs", list)
}

func (svc *Service) createKeyPair(q *api.Request) api.Reply {
	var in struct {
		KeyPair struct {
			Name      string `json:"name"`
			PublicKey string `json:"public_key"`
			Type      string `json:"type"`
		} `json:"keypair"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	id := keyID(q.Caller.User, in.KeyPair.Name)
	if _, known := svc.keyPairs.Get(id); known {
		return q.Refuse(http.StatusConflict, "Key pair '%s' already exists.", in.KeyPair.Name)
	}
	k := &KeyPair{Name: in.KeyPair.Name, user: q.Caller.User, PublicKey: in.KeyPair.PublicKey}
	svc.keyPairs.Put(id, k)
	status := http.StatusOK
	if q.Version.AtLeast(2, 2) {
		status = http.StatusCreated
	}
	return api.Reply{Status: status, Body: wire.Object{{"keypair", k.view(q)}}}
}

func (svc *Service) keyPairByName(q *api.Request) (*KeyPair, api.Reply) {
	k, known := svc.keyPairs.Get(keyID(q.Caller.User, q.PathValue("name")))
	if !known {
		return nil, q.Refuse(http.StatusNotFound, "Keypair %s not found for user %s", q.PathValue("name"), q.Caller.User)
	}
	return k, api.Reply{}
}

func (svc *Service) showKeyPair(q *api.Request) api.Reply {
	k, refused := svc.keyPairByName(q)
	if k == nil {
		return refused
	}
	return api.Ok("keypair", k.view(q))
}

func (svc *Service) deleteKeyPair(q *api.Request) api.Reply {
	k, refused := svc.keyPairByName(q)
	if k == nil {
		return refused
	}
	svc.keyPairs.Remove(keyID(k.user, k.Name))
	return api.Empty(http.StatusNoContent)
}

// view renders a server group. It shows one policy and its rules from microversion 2.64 on, and a list of policies in
// older versions.
func (g *ServerGroup) view(q *api.Request) wire.Object {
	o := wire.Object{{"id", g.ID}, {"name", g.name}, {"members", append([]string{}, g.Members...)}}
	if q.Version.AtLeast(2, 13) {
		o = append(o, wire.Member{"project_id", g.Project}, wire.Member{"user_id", g.user})
	}
	if q.Version.AtLeast(2, 64) {
		return append(o, wire.Member{"policy", g.policy}, wire.Member{"rules", wire.Object{}})
	}
	return append(o, wire.Member{"policies", []string{g.policy}}, wire.Member{"metadata", wire.Object{}})
}

func (svc *Service) listServerGroups(q *api.Request) api.Reply {
	list := []wire.Object{}
	for _, g := range svc.groups.All() {
		if g.Project == q.Project() {
			list = append(list, g.view(q))
		}
	}
	return api.Ok("server_groups", list)
}

var policies = []string{"affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"}

func (svc *Service) createServerGroup(q *api.Request) api.Reply {
	var in struct {
		Group struct {
			Name     string         `json:"name"`
			Policies []string       `json:"policies"`
			Policy   string         `json:"policy"`
			Rules    map[string]int `json:"rules"`
		} `json:"server_group"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	policy := in.Group.Policy
	if len(in.Group.Policies) == 1 {
		policy = in.Group.Policies[0]
	}
	modern := q.Version.AtLeast(2, 64)
	soft := strings.HasPrefix(policy, "soft-") && !q.Version.AtLeast(2, 15)
	if !slices.Contains(policies, policy) || modern != (in.Group.Policy != "") || soft {
		return q.Refuse(http.StatusBadRequest, "Invalid input for field/attribute server_group. Value: {...}. policy %q is not valid at %s", policy, q.Version)
	}
	count := 0
	for _, g := range svc.groups.All() {
		if g.Project == q.Project() {
			count++
		}
	}
	if quotas.Beyond(svc.quotas.Of(q.Project()).ServerGroups, count+1) {
		text := "Quota exceeded, too many server groups."
		if svc.quotas.Unified {
			text = quotas.OverLimit("", quotas.Over{Resource: "server_groups", Limit: svc.quotas.Of(q.Project()).ServerGroups, Used: count, More: 1})
		}
		return q.Refuse(http.StatusForbidden, "%s", text)
	}
	g := &ServerGroup{ID: svc.kernel.NewID(), name: in.Group.Name, Project: q.Project(), user: q.Caller.User, policy: policy, perHost: map[string]int{}}
	svc.groups.Put(g.ID, g)
	return api.Ok("server_group", g.view(q))
}

func (svc *Service) groupByID(q *api.Request) (*ServerGroup, api.Reply) {
	g, known := svc.groups.Get(q.PathValue("id"))
	if !known || g.Project != q.Project() {
		return nil, q.Refuse(http.StatusNotFound, "Instance group %s could not be found.", q.PathValue("id"))
	}
	return g, api.Reply{}
}

func (svc *Service) showServerGroup(q *api.Request) api.Reply {
	g, refused := svc.groupByID(q)
	if g == nil {
		return refused
	}
	return api.Ok("server_group", g.view(q))
}

func (svc *Service) deleteServerGroup(q *api.Request) api.Reply {
	g, refused := svc.groupByID(q)
	if g == nil {
		return refused
	}
	svc.groups.Remove(g.ID)
	return api.Empty(http.StatusNoContent)
}
