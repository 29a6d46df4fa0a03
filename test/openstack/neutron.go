package openstack

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// projects is what Neutron needs of Keystone.
type projects interface {
	// projectID returns the ID of a project that is named by its name or ID, and makes one of that name when there is none.
	projectID(nameOrID string) string
}

// neutron is the network service of a cloud.
type neutron struct {
	kernel   *kernel
	quotas   *quotas
	projects projects
	// addressesChanged announces that the addresses of a server's ports have changed.
	addressesChanged func(serverID string)
	// isDown: nobody reaches the service, Nova neither.
	isDown bool

	networks    table[*netw]
	subnets     table[*subnet]
	ports       table[*port]
	floatingIPs table[*floatingIP]
	groups      table[*securityGroup]
	portCount   map[string]int
	macs        int
}

// newNeutron returns a network service without networks.
func newNeutron(k *kernel, q *quotas, p projects) *neutron {
	return &neutron{kernel: k, quotas: q, projects: p, addressesChanged: func(string) {}}
}

// onAddressesChanged has f called when the addresses of a server's ports have changed.
func (svc *neutron) onAddressesChanged(f func(serverID string)) { svc.addressesChanged = f }

// SetDown stops the service, or starts it again. While it is down its connections are refused.
func (svc *neutron) SetDown(down bool) { svc.isDown = down }

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

func (svc *neutron) routes(rt *router) {
	n := serviceNetwork
	rt.open(n, "/network/v2.0", "/v2.0", func(*request) reply { return ok("resources", []object{}) })
	rt.add(n, http.MethodGet, "/extensions", svc.listExtensions)
	rt.add(n, http.MethodGet, "/extensions/{alias}", svc.showExtension)
	rt.add(n, http.MethodGet, "/networks", svc.listNetworks)
	rt.add(n, http.MethodGet, "/networks/{id}", svc.showNetwork)
	rt.add(n, http.MethodGet, "/subnets", svc.listSubnets)
	rt.add(n, http.MethodGet, "/subnets/{id}", svc.showSubnet)
	rt.add(n, http.MethodPost, "/ports", svc.createPorts)
	rt.add(n, http.MethodGet, "/ports", svc.listPorts)
	rt.add(n, http.MethodGet, "/ports/{id}", svc.showPort)
	rt.add(n, http.MethodPut, "/ports/{id}", svc.updatePort)
	rt.add(n, http.MethodDelete, "/ports/{id}", svc.deletePort)
	rt.add(n, http.MethodPost, "/floatingips", svc.createFloatingIP)
	rt.add(n, http.MethodGet, "/floatingips", svc.listFloatingIPs)
	rt.add(n, http.MethodGet, "/floatingips/{id}", svc.showFloatingIP)
	rt.add(n, http.MethodPut, "/floatingips/{id}", svc.updateFloatingIP)
	rt.add(n, http.MethodDelete, "/floatingips/{id}", svc.deleteFloatingIP)
	rt.add(n, http.MethodPost, "/security-groups", svc.createSecurityGroup)
	rt.add(n, http.MethodGet, "/security-groups", svc.listSecurityGroups)
	rt.add(n, http.MethodGet, "/security-groups/{id}", svc.showSecurityGroup)
	rt.add(n, http.MethodDelete, "/security-groups/{id}", svc.deleteSecurityGroup)
	rt.add(n, http.MethodPost, "/security-group-rules", svc.createSecurityGroupRules)
	rt.add(n, http.MethodGet, "/security-group-rules", svc.listSecurityGroupRules)
	rt.add(n, http.MethodGet, "/quotas/{project}", svc.showNetworkQuota)
	rt.add(n, http.MethodGet, "/quotas/{project}/details.json", svc.showNetworkQuotaDetail)
	rt.add(n, http.MethodGet, "/{kind}/{id}/tags", svc.showTags)
	rt.add(n, http.MethodPut, "/{kind}/{id}/tags", svc.replaceTags)
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

func (svc *neutron) listExtensions(*request) reply {
	list := make([]object, 0, len(extensions))
	for _, e := range extensions {
		list = append(list, extensionView(e))
	}
	return ok("extensions", list)
}

func (svc *neutron) showExtension(q *request) reply {
	if alias := q.PathValue("alias"); slices.Contains(extensions, alias) {
		return ok("extension", extensionView(alias))
	}
	return notFoundPage()
}

func (svc *neutron) listNetworks(q *request) reply {
	var list []object
	for _, n := range svc.networks.all() {
		if n.seenBy(q.project()) {
			list = append(list, n.view())
		}
	}
	return q.page("networks", list, (&netw{}).view())
}

func (svc *neutron) visibleNetwork(q *request, id string) (*netw, bool) {
	n, known := svc.networks.get(id)
	return n, known && n.seenBy(q.project())
}

func networkNotFound(id string) reply {
	return neutronError(http.StatusNotFound, "NetworkNotFound", "Network %s could not be found.", id)
}

func (svc *neutron) showNetwork(q *request) reply {
	n, known := svc.visibleNetwork(q, q.PathValue("id"))
	if !known {
		return networkNotFound(q.PathValue("id"))
	}
	return ok("network", n.view())
}

func (svc *neutron) listSubnets(q *request) reply {
	var list []object
	for _, s := range svc.subnets.all() {
		if n, known := svc.visibleNetwork(q, s.network); known && !n.external {
			list = append(list, s.view())
		}
	}
	return q.page("subnets", list, (&subnet{}).view())
}

func (svc *neutron) showSubnet(q *request) reply {
	s, known := svc.subnets.get(q.PathValue("id"))
	if known {
		_, known = svc.visibleNetwork(q, s.network)
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

// overQuota is Neutron's answer.
func overQuota(kind string) reply {
	return neutronError(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['%s'].", kind)
}

// Leftovers returns the IDs of all ports and floating IPs.
func (svc *neutron) Leftovers() (ports, floatingIPs []string) {
	return svc.ports.allIDs(), svc.floatingIPs.allIDs()
}
