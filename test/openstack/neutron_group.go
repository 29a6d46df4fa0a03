package openstack

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

type securityGroup struct {
	stamps
	id, name, description, project string
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

func (g *securityGroup) view() object {
	rules := make([]object, 0, len(g.rules))
	for _, r := range g.rules {
		rules = append(rules, r.view(g))
	}
	return g.stamps.view(object{
		{"id", g.id}, {"name", g.name}, {"description", g.description}, {"stateful", true}, {"shared", false}, {"security_group_rules", rules},
	}, g.project)
}

func (r *groupRule) view(g *securityGroup) object {
	return r.stamps.view(object{
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

// defaultGroup is the one that every project has.
func (svc *neutron) defaultGroup(project string, now time.Time) *securityGroup {
	for _, g := range svc.groups.all() {
		if g.project == project && g.name == "default" {
			return g
		}
	}
	g := svc.newGroup(project, "default", now)
	g.description = "Default security group"
	for _, version := range []string{"IPv4", "IPv6"} {
		g.rules = append(g.rules, &groupRule{id: svc.kernel.newID(), stamps: newStamps(now), groupRuleSpec: groupRuleSpec{
			Direction: "ingress", EtherType: version, RemoteGroup: &g.id,
		}})
	}
	return g
}

func (svc *neutron) newGroup(project, name string, now time.Time) *securityGroup {
	g := &securityGroup{id: svc.kernel.newID(), name: name, project: project, stamps: newStamps(now)}
	for _, version := range []string{"IPv4", "IPv6"} {
		g.rules = append(g.rules, &groupRule{id: svc.kernel.newID(), stamps: newStamps(now), groupRuleSpec: groupRuleSpec{Direction: "egress", EtherType: version}})
	}
	svc.groups.put(g.id, g)
	return g
}

func securityGroupNotFound(id string) reply {
	return neutronError(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
}

func (svc *neutron) createSecurityGroup(q *request) reply {
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
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	if in.Group.Name == "default" {
		return neutronError(http.StatusConflict, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
	}
	svc.defaultGroup(q.project(), q.now)
	count := 0
	for _, g := range svc.groups.all() {
		if g.project == q.project() {
			count++
		}
	}
	if beyond(svc.quotas.of(q.project()).SecurityGroups, count+1) {
		return overQuota("security_group")
	}
	g := svc.newGroup(q.project(), in.Group.Name, q.now)
	g.description, g.tags = in.Group.Description, in.Group.Tags
	return reply{status: http.StatusCreated, body: object{{"security_group", g.view()}}}
}

func (svc *neutron) listSecurityGroups(q *request) reply {
	svc.defaultGroup(q.project(), q.now)
	var list []object
	for _, g := range svc.groups.all() {
		if g.project == q.project() {
			list = append(list, g.view())
		}
	}
	return q.page("security_groups", list, (&securityGroup{}).view())
}

func (svc *neutron) ownGroup(q *request, id string) (*securityGroup, bool) {
	g, known := svc.groups.get(id)
	return g, known && g.project == q.project()
}

func (svc *neutron) showSecurityGroup(q *request) reply {
	g, known := svc.ownGroup(q, q.PathValue("id"))
	if !known {
		return securityGroupNotFound(q.PathValue("id"))
	}
	return ok("security_group", g.view())
}

func (svc *neutron) deleteSecurityGroup(q *request) reply {
	g, known := svc.ownGroup(q, q.PathValue("id"))
	if !known {
		return securityGroupNotFound(q.PathValue("id"))
	}
	if g.name == "default" {
		return neutronError(http.StatusConflict, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.")
	}
	for _, p := range svc.ports.all() {
		if slices.Contains(p.groups, g.id) {
			return neutronError(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", g.id)
		}
	}
	svc.groups.remove(g.id)
	return empty(http.StatusNoContent)
}

func (svc *neutron) createSecurityGroupRules(q *request) reply {
	var in struct {
		Rule  *groupRuleSpec  `json:"security_group_rule"`
		Rules []groupRuleSpec `json:"security_group_rules"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	specs := in.Rules
	if in.Rule != nil {
		specs = []groupRuleSpec{*in.Rule}
	}
	var views []object
	for _, spec := range specs {
		g, known := svc.ownGroup(q, spec.Group)
		if !known {
			return securityGroupNotFound(spec.Group)
		}
		if same := slices.IndexFunc(g.rules, func(r *groupRule) bool { return r.same(spec) }); same >= 0 {
			return neutronError(http.StatusConflict, "SecurityGroupRuleExists", "Security group rule already exists. Rule id is %s.", g.rules[same].id)
		}
		if beyond(svc.quotas.of(q.project()).SecurityGroupRules, len(g.rules)+1) {
			return overQuota("security_group_rule")
		}
		r := &groupRule{id: svc.kernel.newID(), stamps: newStamps(q.now), groupRuleSpec: spec}
		g.rules = append(g.rules, r)
		views = append(views, r.view(g))
	}
	if in.Rule != nil {
		return reply{status: http.StatusCreated, body: object{{"security_group_rule", views[0]}}}
	}
	return reply{status: http.StatusCreated, body: object{{"security_group_rules", views}}}
}

func (r *groupRule) same(s groupRuleSpec) bool {
	return r.Direction == s.Direction && r.EtherType == s.EtherType && deref(r.Protocol) == deref(s.Protocol) &&
		deref(r.PortMin) == deref(s.PortMin) && deref(r.PortMax) == deref(s.PortMax) &&
		deref(r.RemoteGroup) == deref(s.RemoteGroup) && deref(r.RemoteIP) == deref(s.RemoteIP)
}

func (svc *neutron) listSecurityGroupRules(q *request) reply {
	var list []object
	for _, g := range svc.groups.all() {
		if g.project != q.project() {
			continue
		}
		for _, r := range g.rules {
			list = append(list, r.view(g))
		}
	}
	return q.page("security_group_rules", list, (&groupRule{}).view(&securityGroup{}))
}

// stamped finds what tags can be put on.
func (svc *neutron) stamped(q *request) (*stamps, reply) {
	id := q.PathValue("id")
	switch q.PathValue("kind") {
	case "ports":
		p, refused := svc.ownPort(q, id)
		if p == nil {
			return nil, refused
		}
		return &p.stamps, reply{}
	case "floatingips":
		f, refused := svc.ownFloatingIP(q)
		if f == nil {
			return nil, refused
		}
		return &f.stamps, reply{}
	case "security-groups":
		if g, known := svc.ownGroup(q, id); known {
			return &g.stamps, reply{}
		}
	}
	return nil, neutronError(http.StatusNotFound, "TagResourceNotFound", "Resource %s %s could not be found.", strings.TrimSuffix(q.PathValue("kind"), "s"), id)
}

func (svc *neutron) showTags(q *request) reply {
	s, refused := svc.stamped(q)
	if s == nil {
		return refused
	}
	return ok("tags", slices.Clone(s.tags))
}

func (svc *neutron) replaceTags(q *request) reply {
	var in struct {
		Tags []string `json:"tags"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	s, refused := svc.stamped(q)
	if s == nil {
		return refused
	}
	s.tags = in.Tags
	s.touch(q.now)
	return ok("tags", in.Tags)
}

// networkQuota lists kind, limit and use.
func (svc *neutron) networkQuota(project string) []struct {
	kind        string
	limit, used int
} {
	quota, groups, rules := svc.quotas.of(project), 0, 0
	for _, g := range svc.groups.all() {
		if g.project == project {
			groups++
			rules += len(g.rules)
		}
	}
	return []struct {
		kind        string
		limit, used int
	}{
		{"port", shown(quota.Ports), svc.portCount[project]},
		{"floatingip", shown(quota.FloatingIPs), svc.floatingIPsOf(project)},
		{"security_group", shown(quota.SecurityGroups), groups},
		{"security_group_rule", shown(quota.SecurityGroupRules), rules},
		{"network", -1, 0}, {"subnet", -1, 0}, {"router", -1, 0}, {"subnetpool", -1, 0}, {"rbac_policy", -1, 0},
	}
}

func (svc *neutron) showNetworkQuota(q *request) reply {
	var o object
	for _, r := range svc.networkQuota(q.project()) {
		o = append(o, member{r.kind, r.limit})
	}
	return ok("quota", o)
}

func (svc *neutron) showNetworkQuotaDetail(q *request) reply {
	var o object
	for _, r := range svc.networkQuota(q.project()) {
		o = append(o, member{r.kind, object{{"limit", r.limit}, {"used", r.used}, {"reserved", 0}}})
	}
	return ok("quota", o)
}
