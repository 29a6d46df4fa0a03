package openstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

type fixedIP struct {
	subnet  string
	address netip.Addr
}

type port struct {
	stamps
	id, project, network    string
	name, description       string
	deviceID, deviceOwner   string
	host, status, mac       string
	fixedIPs                []fixedIP
	groups                  []string
	portSecurity, adminDown bool
	pairs                   []object
}

func (p *port) view() object {
	ips := make([]object, 0, len(p.fixedIPs))
	for _, f := range p.fixedIPs {
		ips = append(ips, object{{"subnet_id", f.subnet}, {"ip_address", f.address.String()}})
	}
	groups, pairs := p.groups, p.pairs
	if groups == nil {
		groups = []string{}
	}
	if pairs == nil {
		pairs = []object{}
	}
	return p.stamps.view(object{
		{"id", p.id}, {"name", p.name}, {"description", p.description}, {"network_id", p.network}, {"status", p.status},
		{"admin_state_up", !p.adminDown}, {"mac_address", p.mac}, {"fixed_ips", ips}, {"device_id", p.deviceID},
		{"device_owner", p.deviceOwner}, {"security_groups", groups}, {"port_security_enabled", p.portSecurity},
		{"allowed_address_pairs", pairs}, {"extra_dhcp_opts", []object{}}, {"binding:vnic_type", "normal"},
	}, p.project)
}

type fixedIPSpec struct {
	SubnetID  string `json:"subnet_id"`
	IPAddress string `json:"ip_address"`
}

// portSpec is what a client may say about a port. Absent and null are nil.
type portSpec struct {
	NetworkID      string             `json:"network_id"`
	Name           *string            `json:"name"`
	Description    *string            `json:"description"`
	AdminStateUp   *bool              `json:"admin_state_up"`
	MACAddress     *string            `json:"mac_address"`
	FixedIPs       *[]fixedIPSpec     `json:"fixed_ips"`
	DeviceID       *string            `json:"device_id"`
	DeviceOwner    *string            `json:"device_owner"`
	TenantID       string             `json:"tenant_id"`
	ProjectID      string             `json:"project_id"`
	SecurityGroups *[]string          `json:"security_groups"`
	Pairs          *[]json.RawMessage `json:"allowed_address_pairs"`
	Tags           []string           `json:"tags"`
	PortSecurity   *bool              `json:"port_security_enabled"`
	VNICType       string             `json:"binding:vnic_type"`
	Profile        json.RawMessage    `json:"binding:profile"`
	Uplink         *bool              `json:"propagate_uplink_status"`
}

// createPorts makes one port, or several at once: all of them or none.
func (svc *neutron) createPorts(q *request) reply {
	var in struct {
		Port  *portSpec  `json:"port"`
		Ports []portSpec `json:"ports"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	specs := in.Ports
	if in.Port != nil {
		specs = []portSpec{*in.Port}
	}
	if len(specs) == 0 {
		return q.refuse(http.StatusBadRequest, "Resource body required")
	}
	if beyond(svc.quotas.of(q.project()).Ports, svc.portCount[q.project()]+len(specs)) {
		return overQuota("port")
	}
	made := make([]*port, 0, len(specs))
	for i := range specs {
		p, refused := svc.makePort(q, &specs[i])
		if refused.status != 0 {
			for _, m := range made {
				svc.dropPort(m)
			}
			return refused
		}
		made = append(made, p)
	}
	if in.Port != nil {
		return reply{status: http.StatusCreated, body: object{{"port", made[0].view()}}}
	}
	views := make([]object, 0, len(made))
	for _, p := range made {
		views = append(views, p.view())
	}
	return reply{status: http.StatusCreated, body: object{{"ports", views}}}
}

// makePort checks a spec, gives it addresses and stores it.
func (svc *neutron) makePort(q *request, in *portSpec) (*port, reply) {
	n, known := svc.visibleNetwork(q, in.NetworkID)
	if !known {
		return nil, networkNotFound(in.NetworkID)
	}
	p := &port{id: svc.kernel.newID(), project: q.project(), network: n.id, status: "DOWN", portSecurity: true, stamps: newStamps(q.now)}
	p.tags = in.Tags
	if in.SecurityGroups == nil && (in.PortSecurity == nil || *in.PortSecurity) {
		p.groups = []string{svc.defaultGroup(q.project(), q.now).id}
	}
	svc.macs++
	p.mac = fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", svc.macs>>16&0xff, svc.macs>>8&0xff, svc.macs&0xff)
	if refused := svc.applyPort(q, p, in); refused.status != 0 {
		return nil, refused
	}
	var wanted []fixedIPSpec
	if in.FixedIPs != nil {
		wanted = *in.FixedIPs
	}
	ips, refused := svc.allocate(n, wanted)
	if refused.status != 0 {
		return nil, refused
	}
	if in.FixedIPs == nil || len(wanted) > 0 {
		p.fixedIPs = ips
	}
	svc.storePort(p)
	return p, reply{}
}

func newStamps(now time.Time) stamps { return stamps{created: now, updated: now, revision: 1} }

func (svc *neutron) storePort(p *port) {
	svc.ports.put(p.id, p)
	if svc.portCount == nil {
		svc.portCount = map[string]int{}
	}
	svc.portCount[p.project]++
}

// applyPort sets what create and update have in common.
func (svc *neutron) applyPort(q *request, p *port, in *portSpec) reply {
	set(&p.name, in.Name)
	set(&p.description, in.Description)
	set(&p.deviceID, in.DeviceID)
	set(&p.deviceOwner, in.DeviceOwner)
	set(&p.mac, in.MACAddress)
	set(&p.portSecurity, in.PortSecurity)
	if in.AdminStateUp != nil {
		p.adminDown = !*in.AdminStateUp
	}
	if in.Pairs != nil {
		p.pairs = nil
		for _, raw := range *in.Pairs {
			p.pairs = append(p.pairs, pair(raw))
		}
	}
	if in.SecurityGroups != nil {
		for _, g := range *in.SecurityGroups {
			if sg, known := svc.groups.get(g); !known || sg.project != q.project() {
				return securityGroupNotFound(g)
			}
		}
		p.groups = slices.Clone(*in.SecurityGroups)
	}
	if !p.portSecurity && len(p.groups) > 0 {
		return neutronError(http.StatusBadRequest, "PortSecurityAndIPRequiredForSecurityGroups",
			"Port security must be enabled and port must have an IP address in order to use security groups.")
	}
	return reply{}
}

func pair(raw json.RawMessage) object {
	var in struct {
		IP  string `json:"ip_address"`
		MAC string `json:"mac_address"`
	}
	_ = json.Unmarshal(raw, &in)
	return object{{"ip_address", in.IP}, {"mac_address", in.MAC}}
}

// allocate takes the wanted addresses, or one per IP version when none is named.
func (svc *neutron) allocate(n *netw, wanted []fixedIPSpec) ([]fixedIP, reply) {
	var out []fixedIP
	undo := func(r reply) ([]fixedIP, reply) {
		svc.free(out)
		return nil, r
	}
	if len(wanted) == 0 {
		return svc.allocateAny(n)
	}
	for _, w := range wanted {
		s, refused := svc.subnetFor(n, w)
		if refused.status != 0 {
			return undo(refused)
		}
		if w.IPAddress == "" {
			a, found := s.take()
			if !found {
				return undo(noAddress(n.id))
			}
			out = append(out, fixedIP{s.id, a})
			continue
		}
		a, err := netip.ParseAddr(w.IPAddress)
		if err != nil || !s.cidr.Contains(a) {
			return undo(neutronError(http.StatusBadRequest, "InvalidIpForSubnet", "IP address %s is not a valid IP for the specified subnet.", w.IPAddress))
		}
		if s.used[a] {
			return undo(neutronError(http.StatusConflict, "IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s", a, s.id))
		}
		s.used[a] = true
		out = append(out, fixedIP{s.id, a})
	}
	return out, reply{}
}

func (svc *neutron) allocateAny(n *netw) ([]fixedIP, reply) {
	var out []fixedIP
	tried := map[int]bool{}
	for _, id := range n.subnets {
		s, _ := svc.subnets.get(id)
		if got := slices.ContainsFunc(out, func(f fixedIP) bool { return f.address.Is4() == s.cidr.Addr().Is4() }); got {
			continue
		}
		tried[s.version()] = true
		if a, found := s.take(); found {
			out = append(out, fixedIP{s.id, a})
		}
	}
	if len(out) < len(tried) {
		svc.free(out)
		return nil, noAddress(n.id)
	}
	return out, reply{}
}

func (svc *neutron) subnetFor(n *netw, w fixedIPSpec) (*subnet, reply) {
	address, _ := netip.ParseAddr(w.IPAddress)
	for _, id := range n.subnets {
		s, _ := svc.subnets.get(id)
		if s.id == w.SubnetID || (w.SubnetID == "" && s.cidr.Contains(address)) {
			return s, reply{}
		}
	}
	if _, elsewhere := svc.subnets.get(w.SubnetID); elsewhere {
		return nil, neutronError(http.StatusBadRequest, "InvalidInput",
			"Invalid input for operation: Failed to create port on network %s, because fixed_ips included invalid subnet %s.", n.id, w.SubnetID)
	}
	if w.SubnetID == "" {
		return nil, neutronError(http.StatusBadRequest, "InvalidIpForNetwork", "IP address %s is not a valid IP for any of the subnets on the specified network.", w.IPAddress)
	}
	return nil, neutronError(http.StatusNotFound, "SubnetNotFound", "Subnet %s could not be found.", w.SubnetID)
}

func noAddress(network string) reply {
	return neutronError(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", network)
}

func (svc *neutron) free(ips []fixedIP) {
	for _, f := range ips {
		if s, known := svc.subnets.get(f.subnet); known {
			delete(s.used, f.address)
		}
	}
}

func (svc *neutron) listPorts(q *request) reply {
	list := make([]object, 0, svc.ports.len())
	query := q.URL.Query()
	for _, p := range svc.ports.all() {
		if p.project == q.project() && p.mayMatch(query) {
			list = append(list, p.view())
		}
	}
	return q.page("ports", list, (&port{}).view())
}

// mayMatch rules out cheaply, before a port is rendered, what the commonest filters would rule out afterwards.
func (p *port) mayMatch(query map[string][]string) bool {
	for key, value := range map[string]string{"description": p.description, "device_id": p.deviceID, "name": p.name, "network_id": p.network} {
		if wanted, asked := query[key]; asked && !slices.ContainsFunc(wanted, func(w string) bool { return sameText(w, value) }) {
			return false
		}
	}
	return true
}

func (svc *neutron) ownPort(q *request, id string) (*port, reply) {
	p, known := svc.ports.get(id)
	if !known || p.project != q.project() {
		return nil, neutronError(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", id)
	}
	return p, reply{}
}

func (svc *neutron) showPort(q *request) reply {
	p, refused := svc.ownPort(q, q.PathValue("id"))
	if p == nil {
		return refused
	}
	return ok("port", p.view().maybePick(q.URL.Query()["fields"]))
}

func (svc *neutron) updatePort(q *request) reply {
	var in struct {
		Port portSpec `json:"port"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	p, refused := svc.ownPort(q, q.PathValue("id"))
	if p == nil {
		return refused
	}
	next := *p
	if refused := svc.applyPort(q, &next, &in.Port); refused.status != 0 {
		return refused
	}
	if in.Port.FixedIPs != nil {
		n, _ := svc.networks.get(p.network)
		svc.free(p.fixedIPs)
		ips, refused := svc.allocate(n, *in.Port.FixedIPs)
		if refused.status != 0 {
			svc.retake(p.fixedIPs)
			return refused
		}
		next.fixedIPs = ips
	}
	*p = next
	p.touch(q.now)
	svc.addressesChanged(p.deviceID)
	return ok("port", p.view())
}

func (svc *neutron) retake(ips []fixedIP) {
	for _, f := range ips {
		if s, known := svc.subnets.get(f.subnet); known {
			s.used[f.address] = true
		}
	}
}

func (svc *neutron) deletePort(q *request) reply {
	p, refused := svc.ownPort(q, q.PathValue("id"))
	if p == nil {
		return refused
	}
	svc.dropPort(p)
	return empty(http.StatusNoContent)
}

// dropPort removes a port; its floating IP stays, without it.
func (svc *neutron) dropPort(p *port) {
	svc.free(p.fixedIPs)
	svc.ports.remove(p.id)
	svc.portCount[p.project]--
	for _, f := range svc.floatingIPs.all() {
		if f.port == p.id {
			f.associate(nil, svc.kernel.now())
		}
	}
	svc.addressesChanged(p.deviceID)
}
