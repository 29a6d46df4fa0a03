// Package neutron is the network service of the simulated cloud: networks, subnets, ports, floating IPs and security groups.
// It has no notion of servers: compute.go has the methods that Nova calls, and a callback announces changes of addresses.
package neutron

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/table"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// projects is the part of Keystone that Neutron needs.
type projects interface {
	// ProjectID returns the ID of the project with the name or ID nameOrID. When there is none, it creates a project with
	// that name.
	ProjectID(nameOrID string) string
}

// Service is the network service of a cloud.
type Service struct {
	kernel   *kernel.Kernel
	quotas   *quotas.Quotas
	projects projects
	// addressesChanged announces that the addresses of a server's ports have changed.
	addressesChanged func(serverID string)
	// isDown is true while the service cannot be reached, not even by Nova.
	isDown bool

	networks    table.Table[*Net]
	subnets     table.Table[*subnet]
	ports       table.Table[*Port]
	floatingIPs table.Table[*floatingIP]
	groups      table.Table[*SecurityGroup]
	portCount   map[string]int
	macs        int
}

// New returns a network service without networks.
func New(k *kernel.Kernel, q *quotas.Quotas, p projects) *Service {
	return &Service{kernel: k, quotas: q, projects: p, addressesChanged: func(string) {}}
}

// OnAddressesChanged registers f to be called when the addresses of a server's ports have changed.
func (svc *Service) OnAddressesChanged(f func(serverID string)) { svc.addressesChanged = f }

// SetDown stops the service, or starts it again. While the service is down, it refuses connections.
func (svc *Service) SetDown(down bool) { svc.isDown = down }

// stamps are the fields that every Neutron resource has.
type stamps struct {
	created, updated time.Time
	revision         int
	tags             []string
}

func (s *stamps) touch(now time.Time) {
	s.updated = now
	s.revision++
}

func (s *stamps) view(o wire.Object, project string) wire.Object {
	tags := s.tags
	if tags == nil {
		tags = []string{}
	}
	return append(o,
		wire.Member{"tenant_id", project}, wire.Member{"project_id", project}, wire.Member{"tags", tags},
		wire.Member{"created_at", wire.Zulu(s.created)}, wire.Member{"updated_at", wire.Zulu(s.updated)}, wire.Member{"revision_number", s.revision})
}

// Net is a network as stored in Neutron.
type Net struct {
	stamps
	ID, name, project string
	external          bool
	unrouted          bool
	// open is true when port security is off in the network.
	open    bool
	Subnets []string
	// sharedWith are the IDs of the projects that may use the network, besides its own; everyone means all projects.
	sharedWith []string
}

// everyone is the target of a network that all projects share.
const everyone = "*"

// seenBy reports whether the caller sees the network.
func (n *Net) seenBy(c api.Caller) bool {
	return c.Sees(n.project) || n.external || n.sharedTo(c)
}

// sharedTo reports whether the network is shared with the caller's project. Neutron shows that in the field shared, also to an
// administrator.
func (n *Net) sharedTo(c api.Caller) bool {
	return slices.Contains(n.sharedWith, everyone) || slices.Contains(n.sharedWith, c.Project)
}

func (n *Net) view(c api.Caller) wire.Object {
	return n.stamps.view(wire.Object{
		{"id", n.ID}, {"name", n.name}, {"description", ""}, {"admin_state_up", true}, {"status", "ACTIVE"},
		{"subnets", n.Subnets}, {"shared", n.sharedTo(c)}, {"router:external", n.external},
		{"availability_zone_hints", []string{}}, {"availability_zones", []string{"nova"}}, {"ipv4_address_scope", nil},
		{"ipv6_address_scope", nil}, {"mtu", 1450}, {"port_security_enabled", !n.open}, {"l2_adjacency", true},
	}, n.project)
}

type subnet struct {
	stamps
	id, name, network, project string
	cidr                       netip.Prefix
	gateway, first, last, next netip.Addr
	used                       map[netip.Addr]bool
}

func (s *subnet) view() wire.Object {
	return s.stamps.view(wire.Object{
		{"id", s.id}, {"name", s.name}, {"description", ""}, {"network_id", s.network}, {"cidr", s.cidr.String()},
		{"ip_version", s.version()}, {"gateway_ip", s.gateway.String()}, {"enable_dhcp", true},
		{"dns_nameservers", []string{}}, {"host_routes", []wire.Object{}}, {"service_types", []string{}},
		{"allocation_pools", []wire.Object{{{"start", s.first.String()}, {"end", s.last.String()}}}},
		{"ipv6_address_mode", nil}, {"ipv6_ra_mode", nil}, {"subnetpool_id", nil}, {"dns_publish_fixed_ip", false},
	}, s.project)
}

func (s *subnet) version() int {
	if s.cidr.Addr().Is4() {
		return 4
	}
	return 6
}

// take returns a free address of the pool. It returns an address again only after it has tried all the others.
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

// Routes adds the calls that Neutron answers.
func (svc *Service) Routes(rt *api.Router) {
	n := api.ServiceNetwork
	rt.Open(n, "/network/v2.0", "/v2.0", func(*api.Request) api.Reply { return api.Ok("resources", []wire.Object{}) })
	rt.Add(n, http.MethodGet, "/extensions", svc.listExtensions)
	rt.Add(n, http.MethodGet, "/extensions/{alias}", svc.showExtension)
	rt.Add(n, http.MethodGet, "/networks", svc.listNetworks)
	rt.Add(n, http.MethodPost, "/networks", svc.createNetwork)
	rt.Add(n, http.MethodGet, "/networks/{id}", svc.showNetwork)
	rt.Add(n, http.MethodDelete, "/networks/{id}", svc.deleteNetwork)
	rt.Add(n, http.MethodGet, "/subnets", svc.listSubnets)
	rt.Add(n, http.MethodGet, "/subnets/{id}", svc.showSubnet)
	rt.Add(n, http.MethodPost, "/ports", svc.createPorts)
	rt.Add(n, http.MethodGet, "/ports", svc.listPorts)
	rt.Add(n, http.MethodGet, "/ports/{id}", svc.showPort)
	rt.Add(n, http.MethodPut, "/ports/{id}", svc.updatePort)
	rt.Add(n, http.MethodDelete, "/ports/{id}", svc.deletePort)
	rt.Add(n, http.MethodPost, "/floatingips", svc.createFloatingIP)
	rt.Add(n, http.MethodGet, "/floatingips", svc.listFloatingIPs)
	rt.Add(n, http.MethodGet, "/floatingips/{id}", svc.showFloatingIP)
	rt.Add(n, http.MethodPut, "/floatingips/{id}", svc.updateFloatingIP)
	rt.Add(n, http.MethodDelete, "/floatingips/{id}", svc.deleteFloatingIP)
	rt.Add(n, http.MethodPost, "/security-groups", svc.createSecurityGroup)
	rt.Add(n, http.MethodGet, "/security-groups", svc.listSecurityGroups)
	rt.Add(n, http.MethodGet, "/security-groups/{id}", svc.showSecurityGroup)
	rt.Add(n, http.MethodDelete, "/security-groups/{id}", svc.deleteSecurityGroup)
	rt.Add(n, http.MethodPost, "/security-group-rules", svc.createSecurityGroupRules)
	rt.Add(n, http.MethodGet, "/security-group-rules", svc.listSecurityGroupRules)
	rt.Add(n, http.MethodPost, "/trunks", svc.createTrunk)
	rt.Add(n, http.MethodDelete, "/trunks/{id}", svc.deleteTrunk)
	rt.Add(n, http.MethodGet, "/quotas/{project}", svc.showNetworkQuota)
	rt.Add(n, http.MethodGet, "/quotas/{project}/details.json", svc.showNetworkQuotaDetail)
	rt.Add(n, http.MethodGet, "/{kind}/{id}/tags", svc.showTags)
	rt.Add(n, http.MethodPut, "/{kind}/{id}/tags", svc.replaceTags)
}

// extensions are the aliases of the extensions that a client may ask for.
var extensions = []string{
	"allowed-address-pairs", "binding", "default-subnetpools", "external-net", "filter-validation", "net-mtu", "pagination", "port-security",
	"project-id", "provider", "quotas", "quota_details", "revision-if-match", "router", "security-group", "sorting",
	"standard-attr-description", "standard-attr-revisions", "standard-attr-tag", "standard-attr-timestamp",
	"tag-ports-during-bulk-creation", "trunk", "trunk-details",
}

func extensionView(alias string) wire.Object {
	return wire.Object{{"alias", alias}, {"name", alias}, {"description", ""}, {"updated", "2017-01-01T00:00:00-00:00"}, {"links", []wire.Object{}}}
}

func (svc *Service) listExtensions(*api.Request) api.Reply {
	list := make([]wire.Object, 0, len(extensions))
	for _, e := range extensions {
		list = append(list, extensionView(e))
	}
	return api.Ok("extensions", list)
}

func (svc *Service) showExtension(q *api.Request) api.Reply {
	if alias := q.PathValue("alias"); slices.Contains(extensions, alias) {
		return api.Ok("extension", extensionView(alias))
	}
	return api.NotFoundPage()
}

func (svc *Service) listNetworks(q *api.Request) api.Reply {
	var list []wire.Object
	for _, n := range svc.networks.All() {
		if n.seenBy(q.Caller) {
			list = append(list, n.view(q.Caller))
		}
	}
	return q.Page("networks", list, (&Net{}).view(q.Caller))
}

// VisibleNetwork returns a network by its ID when the caller of a request sees it.
func (svc *Service) VisibleNetwork(q *api.Request, id string) (*Net, bool) {
	n, known := svc.networks.Get(id)
	return n, known && n.seenBy(q.Caller)
}

func networkNotFound(id string) api.Reply {
	return api.NeutronError(http.StatusNotFound, "NetworkNotFound", "Network %s could not be found.", id)
}

func (svc *Service) showNetwork(q *api.Request) api.Reply {
	n, known := svc.VisibleNetwork(q, q.PathValue("id"))
	if !known {
		return networkNotFound(q.PathValue("id"))
	}
	return api.Ok("network", n.view(q.Caller))
}

func (svc *Service) createNetwork(q *api.Request) api.Reply {
	var in struct {
		Network struct {
			Name         string `json:"name"`
			PortSecurity *bool  `json:"port_security_enabled"`
		} `json:"network"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	n := &Net{ID: svc.kernel.NewID(), name: in.Network.Name, project: q.Project(), Subnets: []string{}, stamps: newStamps(q.Now)}
	n.open = in.Network.PortSecurity != nil && !*in.Network.PortSecurity
	svc.networks.Put(n.ID, n)
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"network", n.view(q.Caller)}}}
}

func (svc *Service) deleteNetwork(q *api.Request) api.Reply {
	n, known := svc.VisibleNetwork(q, q.PathValue("id"))
	if !known || !q.Caller.Sees(n.project) {
		return networkNotFound(q.PathValue("id"))
	}
	if slices.ContainsFunc(svc.ports.All(), func(p *Port) bool { return p.Network == n.ID }) {
		return api.NeutronError(http.StatusConflict, "NetworkInUse", "Unable to complete operation on network %s. There are one or more ports still in use on the network.", n.ID)
	}
	svc.networks.Remove(n.ID)
	return api.Empty(http.StatusNoContent)
}

func (svc *Service) listSubnets(q *api.Request) api.Reply {
	var list []wire.Object
	for _, s := range svc.subnets.All() {
		if n, known := svc.VisibleNetwork(q, s.network); known && (!n.external || q.Caller.Sees(n.project)) {
			list = append(list, s.view())
		}
	}
	return q.Page("subnets", list, (&subnet{}).view())
}

func (svc *Service) showSubnet(q *api.Request) api.Reply {
	s, known := svc.subnets.Get(q.PathValue("id"))
	if known {
		_, known = svc.VisibleNetwork(q, s.network)
	}
	if !known {
		return api.NeutronError(http.StatusNotFound, "SubnetNotFound", "Subnet %s could not be found.", q.PathValue("id"))
	}
	return api.Ok("subnet", s.view())
}

// overQuota returns Neutron's answer when a quota is exceeded.
func overQuota(kind string) api.Reply {
	return api.NeutronError(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['%s'].", kind)
}

// Leftovers returns the IDs of all ports and floating IPs.
func (svc *Service) Leftovers() (ports, floatingIPs []string) {
	return svc.ports.AllIDs(), svc.floatingIPs.AllIDs()
}
