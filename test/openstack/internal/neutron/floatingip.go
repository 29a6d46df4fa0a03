package neutron

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

type floatingIP struct {
	stamps
	id, project, network, description string
	address                           FixedIP
	port, router, status              string
	fixed                             netip.Addr
}

func (f *floatingIP) view() wire.Object {
	var fixed any
	if f.fixed.IsValid() {
		fixed = f.fixed.String()
	}
	return f.stamps.view(wire.Object{
		{"id", f.id}, {"description", f.description}, {"floating_network_id", f.network}, {"floating_ip_address", f.address.Address.String()},
		{"port_id", wire.OrNull(f.port)}, {"fixed_ip_address", fixed}, {"router_id", wire.OrNull(f.router)}, {"status", f.status},
		{"port_details", nil}, {"qos_policy_id", nil}, {"port_forwardings", []wire.Object{}},
	}, f.project)
}

// associate associates the floating IP with a port, or with none when p is nil.
func (f *floatingIP) associate(p *Port, now time.Time) {
	f.touch(now)
	if p == nil {
		f.port, f.router, f.fixed, f.status = "", "", netip.Addr{}, "DOWN"
		return
	}
	f.port, f.router, f.fixed, f.status = p.ID, routerOf(p.Project), p.FixedIPs[0].Address, "ACTIVE"
}

// routerOf returns the ID of the router that connects a project's networks to all pools.
func routerOf(project string) string {
	sum := sha256.Sum256([]byte(project))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

type floatingIPSpec struct {
	Network     string          `json:"floating_network_id"`
	Description *string         `json:"description"`
	Address     string          `json:"floating_ip_address"`
	Port        json.RawMessage `json:"port_id"`
	Fixed       string          `json:"fixed_ip_address"`
	Subnet      string          `json:"subnet_id"`
	TenantID    string          `json:"tenant_id"`
	ProjectID   string          `json:"project_id"`
	Tags        []string        `json:"tags"`
}

// wantedPort returns the port named in the request; nil when it is absent or null.
func (svc *Service) wantedPort(q *api.Request, f *floatingIP, raw json.RawMessage) (*Port, api.Reply) {
	var id *string
	if len(raw) == 0 || json.Unmarshal(raw, &id) != nil || id == nil || *id == "" {
		return nil, api.Reply{}
	}
	p, refused := svc.ownPort(q, *id)
	if p == nil {
		return nil, refused
	}
	if len(p.FixedIPs) == 0 {
		return nil, api.NeutronError(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Cannot add floating IP to port %s that has no fixed IPv4 addresses.", p.ID)
	}
	if n, _ := svc.networks.Get(p.Network); n.unrouted {
		return nil, api.NeutronError(http.StatusNotFound, "ExternalGatewayForFloatingIPNotFound",
			"External network %s is not reachable from subnet %s. Therefore, cannot associate Port %s with a Floating IP.", f.network, p.FixedIPs[0].subnet, p.ID)
	}
	for _, other := range svc.floatingIPs.All() {
		if other.port == p.ID && other.id != f.id {
			return nil, api.NeutronError(http.StatusConflict, "FloatingIPPortAlreadyAssociated",
				"Cannot associate floating IP %s (%s) with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
				other.address.Address, other.id, p.ID, p.FixedIPs[0].Address, other.network)
		}
	}
	return p, api.Reply{}
}

func (svc *Service) createFloatingIP(q *api.Request) api.Reply {
	var in struct {
		FloatingIP *floatingIPSpec `json:"floatingip"`
		Bulk       json.RawMessage `json:"floatingips"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	if in.FloatingIP == nil {
		return q.Refuse(http.StatusBadRequest, "Bulk operation not supported")
	}
	spec := in.FloatingIP
	n, known := svc.VisibleNetwork(q, spec.Network)
	if !known {
		return networkNotFound(spec.Network)
	}
	if !n.external {
		return api.NeutronError(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Network %s is not a valid external network.", n.ID)
	}
	f := &floatingIP{id: svc.kernel.NewID(), project: q.Project(), network: n.ID, status: "DOWN", stamps: newStamps(q.Now)}
	wire.Set(&f.description, spec.Description)
	f.tags = spec.Tags
	if quotas.Beyond(svc.quotas.Of(q.Project()).FloatingIPs, svc.floatingIPsOf(q.Project())+1) {
		return overQuota("floatingip")
	}
	var wanted []fixedIPSpec
	if spec.Address != "" || spec.Subnet != "" {
		wanted = []fixedIPSpec{{SubnetID: spec.Subnet, IPAddress: spec.Address}}
	}
	ips, refused := svc.allocate(n, wanted)
	if refused.Status != 0 {
		return refused
	}
	p, refused := svc.wantedPort(q, f, spec.Port)
	if refused.Status != 0 {
		svc.free(ips)
		return refused
	}
	f.address = ips[0]
	svc.floatingIPs.Put(f.id, f)
	if p != nil {
		f.associate(p, q.Now)
		svc.addressesChanged(p.DeviceID)
	}
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"floatingip", f.view()}}}
}

func (svc *Service) floatingIPsOf(project string) int {
	n := 0
	for _, f := range svc.floatingIPs.All() {
		if f.project == project {
			n++
		}
	}
	return n
}

func (svc *Service) listFloatingIPs(q *api.Request) api.Reply {
	var list []wire.Object
	for _, f := range svc.floatingIPs.All() {
		if q.Caller.Sees(f.project) {
			list = append(list, f.view())
		}
	}
	return q.Page("floatingips", list, (&floatingIP{}).view())
}

func (svc *Service) ownFloatingIP(q *api.Request) (*floatingIP, api.Reply) {
	f, known := svc.floatingIPs.Get(q.PathValue("id"))
	if !known || !q.Caller.Sees(f.project) {
		return nil, api.NeutronError(http.StatusNotFound, "FloatingIPNotFound", "Floating IP %s could not be found", q.PathValue("id"))
	}
	return f, api.Reply{}
}

func (svc *Service) showFloatingIP(q *api.Request) api.Reply {
	f, refused := svc.ownFloatingIP(q)
	if f == nil {
		return refused
	}
	return api.Ok("floatingip", f.view())
}

// updateFloatingIP updates a floating IP. When port_id is absent or null it disassociates the address from its port.
func (svc *Service) updateFloatingIP(q *api.Request) api.Reply {
	var in struct {
		FloatingIP floatingIPSpec `json:"floatingip"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	f, refused := svc.ownFloatingIP(q)
	if f == nil {
		return refused
	}
	p, refused := svc.wantedPort(q, f, in.FloatingIP.Port)
	if refused.Status != 0 {
		return refused
	}
	wire.Set(&f.description, in.FloatingIP.Description)
	if len(in.FloatingIP.Port) > 0 || in.FloatingIP.Description == nil {
		svc.portChanged(f.port)
		f.associate(p, q.Now)
		svc.portChanged(f.port)
	}
	return api.Ok("floatingip", f.view())
}

// portChanged notifies Nova of changed addresses of a port.
func (svc *Service) portChanged(id string) {
	if p, known := svc.ports.Get(id); known {
		svc.addressesChanged(p.DeviceID)
	}
}

func (svc *Service) deleteFloatingIP(q *api.Request) api.Reply {
	f, refused := svc.ownFloatingIP(q)
	if f == nil {
		return refused
	}
	svc.free([]FixedIP{f.address})
	svc.floatingIPs.Remove(f.id)
	svc.portChanged(f.port)
	return api.Empty(http.StatusNoContent)
}
