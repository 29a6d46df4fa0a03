package openstack

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// neutron is what Neutron knows.
type neutron struct {
	networks    table[*netw]
	subnets     table[*subnet]
	ports       table[*port]
	floatingIPs table[*floatingIP]
	groups      table[*securityGroup]
	portCount   map[string]int
	macs        int
}

// stamps are what every Neutron resource carries.
type stamps struct {
	created, updated time.Time
	revision         int
	tags             []string
}

func (s *stamps) touch(now time.Time) {
	s.updated = now
	s.revision++
}

func (s *stamps) view(o object, project string) object {
	tags := s.tags
	if tags == nil {
		tags = []string{}
	}
	return append(o,
		member{"tenant_id", project}, member{"project_id", project}, member{"tags", tags},
		member{"created_at", zulu(s.created)}, member{"updated_at", zulu(s.updated)}, member{"revision_number", s.revision})
}

type netw struct {
	stamps
	id, name, project string
	external          bool
	unrouted          bool
	subnets           []string
}

// seenBy: networks without a project are everybody's.
func (n *netw) seenBy(project string) bool {
	return n.project == "" || n.project == project || n.external
}

func (n *netw) view() object {
	return n.stamps.view(object{
		{"id", n.id}, {"name", n.name}, {"description", ""}, {"admin_state_up", true}, {"status", "ACTIVE"},
		{"subnets", n.subnets}, {"shared", n.project == "" && !n.external}, {"router:external", n.external},
		{"availability_zone_hints", []string{}}, {"availability_zones", []string{"nova"}}, {"ipv4_address_scope", nil},
		{"ipv6_address_scope", nil}, {"mtu", 1450}, {"port_security_enabled", true}, {"l2_adjacency", true},
	}, n.project)
}

type subnet struct {
	stamps
	id, name, network, project string
	cidr                       netip.Prefix
	gateway, first, last, next netip.Addr
	used                       map[netip.Addr]bool
}

func (s *subnet) view() object {
	return s.stamps.view(object{
		{"id", s.id}, {"name", s.name}, {"description", ""}, {"network_id", s.network}, {"cidr", s.cidr.String()},
		{"ip_version", s.version()}, {"gateway_ip", s.gateway.String()}, {"enable_dhcp", true},
		{"dns_nameservers", []string{}}, {"host_routes", []object{}}, {"service_types", []string{}},
		{"allocation_pools", []object{{{"start", s.first.String()}, {"end", s.last.String()}}}},
		{"ipv6_address_mode", nil}, {"ipv6_ra_mode", nil}, {"subnetpool_id", nil}, {"dns_publish_fixed_ip", false},
	}, s.project)
}

func (s *subnet) version() int {
	if s.cidr.Addr().Is4() {
		return 4
	}
	return 6
}

// take gives a free address of the pool, and does not come back to one before it went through all the others.
func (s *subnet) take() (netip.Addr, bool) {
	start := s.next
	for {
		a := s.next
		if s.next = a.Next(); s.next.Compare(s.last) > 0 || !s.next.IsValid() {
			s.next = s.first
		}
		if !s.used[a] {
			s.used[a] = true
			return a, true
		}
		if s.next == start {
			return netip.Addr{}, false
		}
	}
}

func networkRoutes(rt *router) {
	n := serviceNetwork
	rt.open(n, "/network/v2.0", "/v2.0", func(*Cloud, *request) reply { return ok("resources", []object{}) })
	rt.add(n, http.MethodGet, "/extensions", listExtensions)
	rt.add(n, http.MethodGet, "/extensions/{alias}", showExtension)
	rt.add(n, http.MethodGet, "/networks", listNetworks)
	rt.add(n, http.MethodGet, "/networks/{id}", showNetwork)
	rt.add(n, http.MethodGet, "/subnets", listSubnets)
	rt.add(n, http.MethodGet, "/subnets/{id}", showSubnet)
	rt.add(n, http.MethodPost, "/ports", createPorts)
	rt.add(n, http.MethodGet, "/ports", listPorts)
	rt.add(n, http.MethodGet, "/ports/{id}", showPort)
	rt.add(n, http.MethodPut, "/ports/{id}", updatePort)
	rt.add(n, http.MethodDelete, "/ports/{id}", deletePort)
	rt.add(n, http.MethodPost, "/floatingips", createFloatingIP)
	rt.add(n, http.MethodGet, "/floatingips", listFloatingIPs)
	rt.add(n, http.MethodGet, "/floatingips/{id}", showFloatingIP)
	rt.add(n, http.MethodPut, "/floatingips/{id}", updateFloatingIP)
	rt.add(n, http.MethodDelete, "/floatingips/{id}", deleteFloatingIP)
	rt.add(n, http.MethodPost, "/security-groups", createSecurityGroup)
	rt.add(n, http.MethodGet, "/security-groups", listSecurityGroups)
	rt.add(n, http.MethodGet, "/security-groups/{id}", showSecurityGroup)
	rt.add(n, http.MethodDelete, "/security-groups/{id}", deleteSecurityGroup)
	rt.add(n, http.MethodPost, "/security-group-rules", createSecurityGroupRules)
	rt.add(n, http.MethodGet, "/security-group-rules", listSecurityGroupRules)
	rt.add(n, http.MethodGet, "/quotas/{project}", showNetworkQuota)
	rt.add(n, http.MethodGet, "/quotas/{project}/details.json", showNetworkQuotaDetail)
	rt.add(n, http.MethodGet, "/{kind}/{id}/tags", showTags)
	rt.add(n, http.MethodPut, "/{kind}/{id}/tags", replaceTags)
}

// extensions are the aliases that a client may ask for.
var extensions = []string{
	"allowed-address-pairs", "binding", "default-subnetpools", "external-net", "filter-validation", "net-mtu", "pagination", "port-security",
	"project-id", "provider", "quotas", "quota_details", "revision-if-match", "router", "security-group", "sorting",
	"standard-attr-description", "standard-attr-revisions", "standard-attr-tag", "standard-attr-timestamp",
	"tag-ports-during-bulk-creation",
}

func extensionView(alias string) object {
	return object{{"alias", alias}, {"name", alias}, {"description", ""}, {"updated", "2017-01-01T00:00:00-00:00"}, {"links", []object{}}}
}

func listExtensions(*Cloud, *request) reply {
	list := make([]object, 0, len(extensions))
	for _, e := range extensions {
		list = append(list, extensionView(e))
	}
	return ok("extensions", list)
}

func showExtension(_ *Cloud, q *request) reply {
	if alias := q.PathValue("alias"); slices.Contains(extensions, alias) {
		return ok("extension", extensionView(alias))
	}
	return notFoundPage()
}

func listNetworks(c *Cloud, q *request) reply {
	var list []object
	for _, n := range c.network.networks.all() {
		if n.seenBy(q.project()) {
			list = append(list, n.view())
		}
	}
	return q.page("networks", list, (&netw{}).view())
}

func (c *Cloud) visibleNetwork(q *request, id string) (*netw, bool) {
	n, known := c.network.networks.get(id)
	return n, known && n.seenBy(q.project())
}

func networkNotFound(id string) reply {
	return neutronError(http.StatusNotFound, "NetworkNotFound", "Network %s could not be found.", id)
}

func showNetwork(c *Cloud, q *request) reply {
	n, known := c.visibleNetwork(q, q.PathValue("id"))
	if !known {
		return networkNotFound(q.PathValue("id"))
	}
	return ok("network", n.view())
}

func listSubnets(c *Cloud, q *request) reply {
	var list []object
	for _, s := range c.network.subnets.all() {
		if n, known := c.visibleNetwork(q, s.network); known && !n.external {
			list = append(list, s.view())
		}
	}
	return q.page("subnets", list, (&subnet{}).view())
}

func showSubnet(c *Cloud, q *request) reply {
	s, known := c.network.subnets.get(q.PathValue("id"))
	if known {
		_, known = c.visibleNetwork(q, s.network)
	}
	if !known {
		return neutronError(http.StatusNotFound, "SubnetNotFound", "Subnet %s could not be found.", q.PathValue("id"))
	}
	return ok("subnet", s.view())
}

// paging are the query values that are no filters.
var paging = []string{"fields", "limit", "marker", "sort_key", "sort_dir", "page_reverse", "tags", "tags-any", "not-tags", "not-tags-any"}

// page filters, cuts and trims a Neutron list as the query says. With a limit rows come by ID, since a marker needs an
// order; a marker that is not there is 404. A filter that no row (such as sample) has is 400.
func (q *request) page(key string, list []object, sample object) reply {
	query := q.URL.Query()
	for name, wanted := range query {
		if slices.Contains(paging, name) {
			continue
		}
		if _, known := sample.get(name); !known {
			return q.refuse(http.StatusBadRequest, "['%s'] is invalid attribute for filtering", name)
		}
		list = slices.DeleteFunc(list, func(o object) bool { return !o.has(name, wanted) })
	}
	list = slices.DeleteFunc(list, func(o object) bool { return !q.tagged(o) })
	body := object{{key, list}}
	if limit := query.Get("limit"); limit != "" {
		rows, more, found := q.cut(list, limit)
		if !found {
			kind := strings.TrimSuffix(key, "s")
			return neutronError(http.StatusNotFound, strings.ToUpper(kind[:1])+kind[1:]+"NotFound", "%s %s could not be found", kind, query.Get("marker"))
		}
		list = rows
		if body = (object{{key, list}}); more {
			body = append(body, member{key + "_links", []object{{{"rel", "next"}, {"href", q.next(list)}}}})
		}
	}
	if fields := query["fields"]; len(fields) > 0 {
		for i, o := range list {
			list[i] = o.pick(fields)
		}
	}
	if list == nil {
		body[0].value = []object{}
	}
	return reply{status: http.StatusOK, body: body}
}

func (q *request) cut(list []object, limit string) (rows []object, more, found bool) {
	slices.SortFunc(list, func(a, b object) int { return strings.Compare(a[0].value.(string), b[0].value.(string)) })
	n := 0
	_, _ = fmt.Sscan(limit, &n)
	if marker := q.URL.Query().Get("marker"); marker != "" {
		at := slices.IndexFunc(list, func(o object) bool { return o[0].value == marker })
		if at < 0 {
			return nil, false, false
		}
		list = list[at+1:]
	}
	if n > 0 && len(list) >= n {
		return list[:n], true, true
	}
	return list, false, true
}

// next is the address of the page after this one.
func (q *request) next(list []object) string {
	u := *q.URL
	query := u.Query()
	query.Set("marker", list[len(list)-1][0].value.(string))
	return q.base + u.Path + "?" + query.Encode()
}

// has says whether an attribute has one of the wanted values; a list has those that it contains.
func (o object) has(key string, wanted []string) bool {
	v, known := o.get(key)
	if !known {
		return false
	}
	switch v := v.(type) {
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return slices.Contains(wanted, s) })
	case []object:
		return slices.ContainsFunc(v, func(inner object) bool {
			return slices.ContainsFunc(wanted, func(w string) bool {
				name, value, _ := strings.Cut(w, "=")
				return inner.has(name, []string{value})
			})
		})
	case bool:
		return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, fmt.Sprint(v)) })
	case nil:
		return slices.Contains(wanted, "")
	default:
		return slices.ContainsFunc(wanted, func(w string) bool { return sameText(fmt.Sprint(v), w) })
	}
}

// sameText compares as the database below Neutron does (MySQL's usual collation): neither capitals nor white space at the
// end make a difference.
func sameText(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, " "), strings.TrimRight(b, " "))
}

// tagged applies the four tag filters.
func (q *request) tagged(o object) bool {
	v, _ := o.get("tags")
	tags, _ := v.([]string)
	has := func(t string) bool { return slices.Contains(tags, t) }
	lacks := func(t string) bool { return !has(t) }
	all, anyOf, notAll, notAny := q.list("tags"), q.list("tags-any"), q.list("not-tags"), q.list("not-tags-any")
	switch {
	case slices.ContainsFunc(all, lacks), len(anyOf) > 0 && !slices.ContainsFunc(anyOf, has):
		return false
	case len(notAll) > 0 && !slices.ContainsFunc(notAll, lacks), slices.ContainsFunc(notAny, has):
		return false
	}
	return true
}
