package neutron

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// SecurityGroup is a security group and its rules.
type SecurityGroup struct {
	stamps
	id, Name, description, project string
	rules                          []*groupRule
}

type groupRule struct {
	stamps
	id string
	groupRuleSpec
}

type groupRuleSpec struct {
	Group       string  `json:"security_group_id"`
	Direction   string  `json:"direction"`
	EtherType   string  `json:"ethertype"`
	Protocol    *string `json:"protocol"`
	PortMin     *int    `json:"port_range_min"`
	PortMax     *int    `json:"port_range_max"`
	RemoteGroup *string `json:"remote_group_id"`
	RemoteIP    *string `json:"remote_ip_prefix"`
	Description *string `json:"description"`
	TenantID    string  `json:"tenant_id"`
	ProjectID   string  `json:"project_id"`
}

func (g *SecurityGroup) view() wire.Object {
	rules := make([]wire.Object, 0, len(g.rules))
	for _, r := range g.rules {
		rules = append(rules, r.view(g))
	}
	return g.stamps.view(wire.Object{
		{"id", g.id}, {"name", g.Name}, {"description", g.description}, {"stateful", true}, {"shared", false}, {"security_group_rules", rules},
	}, g.project)
}

func (r *groupRule) view(g *SecurityGroup) wire.Object {
	return r.stamps.view(wire.Object{
		{"id", r.id}, {"security_group_id", g.id}, {"direction", r.Direction}, {"ethertype", r.EtherType},
		{"protocol", deref(r.Protocol)}, {"port_range_min", deref(r.PortMin)}, {"port_range_max", deref(r.PortMax)},
		{"remote_group_id", deref(r.RemoteGroup)}, {"remote_ip_prefix", deref(r.RemoteIP)}, {"remote_address_group_id", nil},
		{"normalized_cidr", nil}, {"description", deref(r.Description)},
	}, g.project)
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// DefaultGroup returns the security group that every project has.
func (svc *Service) DefaultGroup(project string, now time.Time) *SecurityGroup {
	for _, g := range svc.groups.All() {
		if g.project == project && g.Name == "default" {
			return g
		}
	}
	g := svc.newGroup(project, "default", now)
	g.description = "Default security group"
	for _, version := range []string{"IPv4", "IPv6"} {
		g.rules = append(g.rules, &groupRule{id: svc.kernel.NewID(), stamps: newStamps(now), groupRuleSpec: groupRuleSpec{
			Direction: "ingress", EtherType: version, RemoteGroup: &g.id,
		}})
	}
	return g
}

func (svc *Service) newGroup(project, name string, now time.Time) *SecurityGroup {
	g := &SecurityGroup{id: svc.kernel.NewID(), Name: name, project: project, stamps: newStamps(now)}
	for _, version := range []string{"IPv4", "IPv6"} {
		g.rules = append(g.rules, &groupRule{id: svc.kernel.NewID(), stamps: newStamps(now), groupRuleSpec: groupRuleSpec{Direction: "egress", EtherType: version}})
	}
	svc.groups.Put(g.id, g)
	return g
}

func securityGroupNotFound(id string) api.Reply {
	return api.NeutronError(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
}

func (svc *Service) createSecurityGroup(q *api.Request) api.Reply {
	var in struct {
		Group struct {
			Name        string   `json:"name"`
			Description string   `json:"description"`
			Stateful    *bool    `json:"stateful"`
			Tags        []string `json:"tags"`
			TenantID    string   `json:"tenant_id"`
			ProjectID   string   `json:"project_id"`
		} `json:"security_group"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	if in.Group.Name == "default" {
		return api.NeutronError(http.StatusConflict, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
	}
	svc.DefaultGroup(q.Project(), q.Now)
	count := 0
	for _, g := range svc.groups.All() {
		if g.project == q.Project() {
			count++
		}
	}
	if quotas.Beyond(svc.quotas.Of(q.Project()).SecurityGroups, count+1) {
		return overQuota("security_group")
	}
	g := svc.newGroup(q.Project(), in.Group.Name, q.Now)
	g.description, g.tags = in.Group.Description, in.Group.Tags
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"security_group", g.view()}}}
}

func (svc *Service) listSecurityGroups(q *api.Request) api.Reply {
	svc.DefaultGroup(q.Project(), q.Now)
	var list []wire.Object
	for _, g := range svc.groups.All() {
		if q.Caller.Sees(g.project) {
			list = append(list, g.view())
		}
	}
	return q.Page("security_groups", list, (&SecurityGroup{}).view())
}

func (svc *Service) ownGroup(q *api.Request, id string) (*SecurityGroup, bool) {
	g, known := svc.groups.Get(id)
	return g, known && q.Caller.Sees(g.project)
}

func (svc *Service) showSecurityGroup(q *api.Request) api.Reply {
	g, known := svc.ownGroup(q, q.PathValue("id"))
	if !known {
		return securityGroupNotFound(q.PathValue("id"))
	}
	return api.Ok("security_group", g.view())
}

func (svc *Service) deleteSecurityGroup(q *api.Request) api.Reply {
	g, known := svc.ownGroup(q, q.PathValue("id"))
	if !known {
		return securityGroupNotFound(q.PathValue("id"))
	}
	if g.Name == "default" {
		return api.NeutronError(http.StatusConflict, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.")
	}
	for _, p := range svc.ports.All() {
		if slices.Contains(p.groups, g.id) {
			return api.NeutronError(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", g.id)
		}
	}
	svc.groups.Remove(g.id)
	return api.Empty(http.StatusNoContent)
}

func (svc *Service) createSecurityGroupRules(q *api.Request) api.Reply {
	var in struct {
		Rule  *groupRuleSpec  `json:"security_group_rule"`
		Rules []groupRuleSpec `json:"security_group_rules"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	specs := in.Rules
	if in.Rule != nil {
		specs = []groupRuleSpec{*in.Rule}
	}
	var views []wire.Object
	for _, spec := range specs {
		g, known := svc.ownGroup(q, spec.Group)
		if !known {
			return securityGroupNotFound(spec.Group)
		}
		if same := slices.IndexFunc(g.rules, func(r *groupRule) bool { return r.same(spec) }); same >= 0 {
			return api.NeutronError(http.StatusConflict, "SecurityGroupRuleExists", "Security group rule already exists. Rule id is %s.", g.rules[same].id)
		}
		if quotas.Beyond(svc.quotas.Of(q.Project()).SecurityGroupRules, len(g.rules)+1) {
			return overQuota("security_group_rule")
		}
		r := &groupRule{id: svc.kernel.NewID(), stamps: newStamps(q.Now), groupRuleSpec: spec}
		g.rules = append(g.rules, r)
		views = append(views, r.view(g))
	}
	if in.Rule != nil {
		return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"security_group_rule", views[0]}}}
	}
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"security_group_rules", views}}}
}

func (r *groupRule) same(s groupRuleSpec) bool {
	return r.Direction == s.Direction && r.EtherType == s.EtherType && deref(r.Protocol) == deref(s.Protocol) &&
		deref(r.PortMin) == deref(s.PortMin) && deref(r.PortMax) == deref(s.PortMax) &&
		deref(r.RemoteGroup) == deref(s.RemoteGroup) && deref(r.RemoteIP) == deref(s.RemoteIP)
}

func (svc *Service) listSecurityGroupRules(q *api.Request) api.Reply {
	var list []wire.Object
	for _, g := range svc.groups.All() {
		if !q.Caller.Sees(g.project) {
			continue
		}
		for _, r := range g.rules {
			list = append(list, r.view(g))
		}
	}
	return q.Page("security_group_rules", list, (&groupRule{}).view(&SecurityGroup{}))
}

// stamped returns the common fields, such as the tags, of the resource whose tags a call reads or changes.
func (svc *Service) stamped(q *api.Request) (*stamps, api.Reply) {
	id := q.PathValue("id")
	switch q.PathValue("kind") {
	case "ports":
		p, refused := svc.ownPort(q, id)
		if p == nil {
			return nil, refused
		}
		return &p.stamps, api.Reply{}
	case "floatingips":
		f, refused := svc.ownFloatingIP(q)
		if f == nil {
			return nil, refused
		}
		return &f.stamps, api.Reply{}
	case "security-groups":
		if g, known := svc.ownGroup(q, id); known {
			return &g.stamps, api.Reply{}
		}
	}
	return nil, api.NeutronError(http.StatusNotFound, "TagResourceNotFound", "Resource %s %s could not be found.", strings.TrimSuffix(q.PathValue("kind"), "s"), id)
}

func (svc *Service) showTags(q *api.Request) api.Reply {
	s, refused := svc.stamped(q)
	if s == nil {
		return refused
	}
	return api.Ok("tags", slices.Clone(s.tags))
}

func (svc *Service) replaceTags(q *api.Request) api.Reply {
	var in struct {
		Tags []string `json:"tags"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	s, refused := svc.stamped(q)
	if s == nil {
		return refused
	}
	s.tags = in.Tags
	s.touch(q.Now)
	return api.Ok("tags", in.Tags)
}

// networkQuota lists the kind, limit and use of each quota.
func (svc *Service) networkQuota(project string) []struct {
	kind        string
	limit, used int
} {
	quota, groups, rules := svc.quotas.Of(project), 0, 0
	for _, g := range svc.groups.All() {
		if g.project == project {
			groups++
			rules += len(g.rules)
		}
	}
	return []struct {
		kind        string
		limit, used int
	}{
		{"port", quotas.Shown(quota.Ports), svc.portCount[project]},
		{"floatingip", quotas.Shown(quota.FloatingIPs), svc.floatingIPsOf(project)},
		{"security_group", quotas.Shown(quota.SecurityGroups), groups},
		{"security_group_rule", quotas.Shown(quota.SecurityGroupRules), rules},
		{"network", -1, 0}, {"subnet", -1, 0}, {"router", -1, 0}, {"subnetpool", -1, 0}, {"rbac_policy", -1, 0},
	}
}

func (svc *Service) showNetworkQuota(q *api.Request) api.Reply {
	var o wire.Object
	for _, r := range svc.networkQuota(q.Project()) {
		o = append(o, wire.Member{r.kind, r.limit})
	}
	return api.Ok("quota", o)
}

func (svc *Service) showNetworkQuotaDetail(q *api.Request) api.Reply {
	var o wire.Object
	for _, r := range svc.networkQuota(q.Project()) {
		o = append(o, wire.Member{r.kind, wire.Object{{"limit", r.limit}, {"used", r.used}, {"reserved", 0}}})
	}
	return api.Ok("quota", o)
}
