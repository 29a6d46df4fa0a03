package openstack

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"time"
)

type floatingIP struct {
	stamps
	id, project, network, description string
	address                           fixedIP
	port, router, status              string
	fixed                             netip.Addr
}

func (f *floatingIP) view() object {
	var fixed any
	if f.fixed.IsValid() {
		fixed = f.fixed.String()
	}
	return f.stamps.view(object{
		{"id", f.id}, {"description", f.description}, {"floating_network_id", f.network}, {"floating_ip_address", f.address.address.String()},
		{"port_id", orNull(f.port)}, {"fixed_ip_address", fixed}, {"router_id", orNull(f.router)}, {"status", f.status},
		{"port_details", nil}, {"qos_policy_id", nil}, {"port_forwardings", []object{}},
	}, f.project)
}

// associate binds the address to a port, or to none.
func (f *floatingIP) associate(p *port, now time.Time) {
	f.touch(now)
	if p == nil {
		f.port, f.router, f.fixed, f.status = "", "", netip.Addr{}, "DOWN"
		return
	}
	f.port, f.router, f.fixed, f.status = p.id, routerOf(p.project), p.fixedIPs[0].address, "ACTIVE"
}

// routerOf is the router that joins a project's networks to all pools.
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

// wantedPort is the port that is named; nil when it is absent or null.
func (svc *neutron) wantedPort(q *request, f *floatingIP, raw json.RawMessage) (*port, reply) {
	var id *string
	if len(raw) == 0 || json.Unmarshal(raw, &id) != nil || id == nil || *id == "" {
		return nil, reply{}
	}
	p, refused := svc.ownPort(q, *id)
	if p == nil {
		return nil, refused
	}
	if len(p.fixedIPs) == 0 {
		return nil, neutronError(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Cannot add floating IP to port %s that has no fixed IPv4 addresses.", p.id)
	}
	if n, _ := svc.networks.get(p.network); n.unrouted {
		return nil, neutronError(http.StatusNotFound, "ExternalGatewayForFloatingIPNotFound",
			"External network %s is not reachable from subnet %s. Therefore, cannot associate Port %s with a Floating IP.", f.network, p.fixedIPs[0].subnet, p.id)
	}
	for _, other := range svc.floatingIPs.all() {
		if other.port == p.id && other.id != f.id {
			return nil, neutronError(http.StatusConflict, "FloatingIPPortAlreadyAssociated",
				"Cannot associate floating IP %s (%s) with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
				other.address.address, other.id, p.id, p.fixedIPs[0].address, other.network)
		}
	}
	return p, reply{}
}

func (svc *neutron) createFloatingIP(q *request) reply {
	var in struct {
		FloatingIP *floatingIPSpec `json:"floatingip"`
		Bulk       json.RawMessage `json:"floatingips"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	if in.FloatingIP == nil {
		return q.refuse(http.StatusBadRequest, "Bulk operation not supported")
	}
	spec := in.FloatingIP
	n, known := svc.visibleNetwork(q, spec.Network)
	if !known {
		return networkNotFound(spec.Network)
	}
	if !n.external {
		return neutronError(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Network %s is not a valid external network.", n.id)
	}
	f := &floatingIP{id: svc.kernel.newID(), project: q.project(), network: n.id, status: "DOWN", stamps: newStamps(q.now)}
	set(&f.description, spec.Description)
	f.tags = spec.Tags
	if beyond(svc.quotas.of(q.project()).FloatingIPs, svc.floatingIPsOf(q.project())+1) {
		return overQuota("floatingip")
	}
	var wanted []fixedIPSpec
	if spec.Address != "" || spec.Subnet != "" {
		wanted = []fixedIPSpec{{SubnetID: spec.Subnet, IPAddress: spec.Address}}
	}
	ips, refused := svc.allocate(n, wanted)
	if refused.status != 0 {
		return refused
	}
	p, refused := svc.wantedPort(q, f, spec.Port)
	if refused.status != 0 {
		svc.free(ips)
		return refused
	}
	f.address = ips[0]
	svc.floatingIPs.put(f.id, f)
	if p != nil {
		f.associate(p, q.now)
		svc.addressesChanged(p.deviceID)
	}
	return reply{status: http.StatusCreated, body: object{{"floatingip", f.view()}}}
}

func (svc *neutron) floatingIPsOf(project string) int {
	n := 0
	for _, f := range svc.floatingIPs.all() {
		if f.project == project {
			n++
		}
	}
	return n
}

func (svc *neutron) listFloatingIPs(q *request) reply {
	var list []object
	for _, f := range svc.floatingIPs.all() {
		if f.project == q.project() {
			list = append(list, f.view())
		}
	}
	return q.page("floatingips", list, (&floatingIP{}).view())
}

func (svc *neutron) ownFloatingIP(q *request) (*floatingIP, reply) {
	f, known := svc.floatingIPs.get(q.PathValue("id"))
	if !known || f.project != q.project() {
		return nil, neutronError(http.StatusNotFound, "FloatingIPNotFound", "Floating IP %s could not be found", q.PathValue("id"))
	}
	return f, reply{}
}

func (svc *neutron) showFloatingIP(q *request) reply {
	f, refused := svc.ownFloatingIP(q)
	if f == nil {
		return refused
	}
	return ok("floatingip", f.view())
}

// updateFloatingIP: a port_id that is absent or null takes the address off its port.
func (svc *neutron) updateFloatingIP(q *request) reply {
	var in struct {
		FloatingIP floatingIPSpec `json:"floatingip"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	f, refused := svc.ownFloatingIP(q)
	if f == nil {
		return refused
	}
	p, refused := svc.wantedPort(q, f, in.FloatingIP.Port)
	if refused.status != 0 {
		return refused
	}
	set(&f.description, in.FloatingIP.Description)
	if len(in.FloatingIP.Port) > 0 || in.FloatingIP.Description == nil {
		svc.portChanged(f.port)
		f.associate(p, q.now)
		svc.portChanged(f.port)
	}
	return ok("floatingip", f.view())
}

// portChanged lets Nova learn of new addresses of a port.
func (svc *neutron) portChanged(id string) {
	if p, known := svc.ports.get(id); known {
		svc.addressesChanged(p.deviceID)
	}
}

func (svc *neutron) deleteFloatingIP(q *request) reply {
	f, refused := svc.ownFloatingIP(q)
	if f == nil {
		return refused
	}
	svc.free([]fixedIP{f.address})
	svc.floatingIPs.remove(f.id)
	svc.portChanged(f.port)
	return empty(http.StatusNoContent)
}
