package neutron

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// FixedIP is an address in a subnet.
type FixedIP struct {
	subnet  string
	Address netip.Addr
}

// Port is a port as stored in Neutron.
type Port struct {
	stamps
	ID, Project, Network    string
	name, description       string
	DeviceID, deviceOwner   string
	host, Status, Mac       string
	FixedIPs                []FixedIP
	groups                  []string
	portSecurity, adminDown bool
	pairs                   []wire.Object
	// trunk is the trunk whose parent or subport the port is; nil when there is none.
	trunk *trunk
}

// View returns the port as the API shows it.
func (p *Port) View() wire.Object {
	ips := make([]wire.Object, 0, len(p.FixedIPs))
	for _, f := range p.FixedIPs {
		ips = append(ips, wire.Object{{"subnet_id", f.subnet}, {"ip_address", f.Address.String()}})
	}
	groups, pairs := p.groups, p.pairs
	if groups == nil {
		groups = []string{}
	}
	if pairs == nil {
		pairs = []wire.Object{}
	}
	out := p.view(wire.Object{
		{"id", p.ID}, {"name", p.name}, {"description", p.description}, {"network_id", p.Network}, {"status", p.Status},
		{"admin_state_up", !p.adminDown}, {"mac_address", p.Mac}, {"fixed_ips", ips}, {"device_id", p.DeviceID},
		{"device_owner", p.deviceOwner}, {"security_groups", groups}, {"port_security_enabled", p.portSecurity},
		{"allowed_address_pairs", pairs}, {"extra_dhcp_opts", []wire.Object{}}, {"binding:vnic_type", "normal"},
	}, p.Project)
	// Only a parent shows its trunk.
	if p.trunk != nil && p.trunk.parent == p.ID {
		out = out.And("trunk_details", wire.Object{{"trunk_id", p.trunk.id}, {"sub_ports", p.trunk.subportViews()}})
	}
	return out
}

type fixedIPSpec struct {
	SubnetID  string `json:"subnet_id"`
	IPAddress string `json:"ip_address"`
}

// portSpec holds the fields of a port that a client may set. Absent and null fields are nil.
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

// createPorts creates one port, or several ports in one call, all or none.
func (svc *Service) createPorts(q *api.Request) api.Reply {
	var in struct {
		Port  *portSpec  `json:"port"`
		Ports []portSpec `json:"ports"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	specs := in.Ports
	if in.Port != nil {
		specs = []portSpec{*in.Port}
	}
	if len(specs) == 0 {
		return q.Refuse(http.StatusBadRequest, "Resource body required")
	}
	if quotas.Beyond(svc.quotas.Of(q.Project()).Ports, svc.portCount[q.Project()]+len(specs)) {
		return overQuota("port")
	}
	made := make([]*Port, 0, len(specs))
	for i := range specs {
		p, refused := svc.makePort(q, &specs[i])
		if refused.Status != 0 {
			for _, m := range made {
				svc.DropPort(m)
			}
			return refused
		}
		made = append(made, p)
	}
	if in.Port != nil {
		return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"port", made[0].View()}}}
	}
	views := make([]wire.Object, 0, len(made))
	for _, p := range made {
		views = append(views, p.View())
	}
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"ports", views}}}
}

// makePort checks a spec, allocates the addresses and stores the port.
func (svc *Service) makePort(q *api.Request, in *portSpec) (*Port, api.Reply) {
	n, known := svc.VisibleNetwork(q, in.NetworkID)
	if !known {
		return nil, networkNotFound(in.NetworkID)
	}
	p := &Port{ID: svc.kernel.NewID(), Project: q.Project(), Network: n.ID, Status: "DOWN", portSecurity: !n.open, stamps: newStamps(q.Now)}
	p.tags = in.Tags
	wire.Set(&p.portSecurity, in.PortSecurity)
	if in.SecurityGroups == nil && p.portSecurity {
		p.groups = []string{svc.DefaultGroup(q.Project(), q.Now).id}
	}
	svc.macs++
	p.Mac = fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", svc.macs>>16&0xff, svc.macs>>8&0xff, svc.macs&0xff)
	if refused := svc.applyPort(q, p, in); refused.Status != 0 {
		return nil, refused
	}
	var wanted []fixedIPSpec
	if in.FixedIPs != nil {
		wanted = *in.FixedIPs
	}
	ips, refused := svc.allocate(n, wanted)
	if refused.Status != 0 {
		return nil, refused
	}
	if in.FixedIPs == nil || len(wanted) > 0 {
		p.FixedIPs = ips
	}
	svc.storePort(p)
	return p, api.Reply{}
}

func newStamps(now time.Time) stamps { return stamps{created: now, updated: now, revision: 1} }

func (svc *Service) storePort(p *Port) {
	svc.ports.Put(p.ID, p)
	if svc.portCount == nil {
		svc.portCount = map[string]int{}
	}
	svc.portCount[p.Project]++
}

// applyPort sets the fields that create and update have in common.
func (svc *Service) applyPort(q *api.Request, p *Port, in *portSpec) api.Reply {
	wire.Set(&p.name, in.Name)
	wire.Set(&p.description, in.Description)
	wire.Set(&p.DeviceID, in.DeviceID)
	wire.Set(&p.deviceOwner, in.DeviceOwner)
	wire.Set(&p.Mac, in.MACAddress)
	wire.Set(&p.portSecurity, in.PortSecurity)
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
			if sg, known := svc.groups.Get(g); !known || !q.Caller.Sees(sg.project) {
				return securityGroupNotFound(g)
			}
		}
		p.groups = slices.Clone(*in.SecurityGroups)
	}
	if !p.portSecurity && len(p.pairs) > 0 {
		return api.NeutronError(http.StatusConflict, "AddressPairAndPortSecurityRequired", "Port Security must be enabled in order to have allowed address pairs on a port.")
	}
	if !p.portSecurity && len(p.groups) > 0 {
		return api.NeutronError(http.StatusBadRequest, "PortSecurityAndIPRequiredForSecurityGroups",
			"Port security must be enabled and port must have an IP address in order to use security groups.")
	}
	return api.Reply{}
}

func pair(raw json.RawMessage) wire.Object {
	var in struct {
		IP  string `json:"ip_address"`
		MAC string `json:"mac_address"`
	}
	_ = json.Unmarshal(raw, &in)
	return wire.Object{{"ip_address", in.IP}, {"mac_address", in.MAC}}
}

// allocate allocates the wanted addresses of a port. When no address is wanted, it allocates one free address per IP
// version.
func (svc *Service) allocate(n *Net, wanted []fixedIPSpec) ([]FixedIP, api.Reply) {
	var out []FixedIP
	undo := func(r api.Reply) ([]FixedIP, api.Reply) {
		svc.free(out)
		return nil, r
	}
	if len(wanted) == 0 {
		return svc.allocateAny(n)
	}
	for _, w := range wanted {
		s, refused := svc.subnetFor(n, w)
		if refused.Status != 0 {
			return undo(refused)
		}
		if w.IPAddress == "" {
			a, found := s.take()
			if !found {
				return undo(noAddress(n.ID))
			}
			out = append(out, FixedIP{s.id, a})
			continue
		}
		a, err := netip.ParseAddr(w.IPAddress)
		if err != nil || !s.cidr.Contains(a) {
			return undo(api.NeutronError(http.StatusBadRequest, "InvalidIpForSubnet", "IP address %s is not a valid IP for the specified subnet.", w.IPAddress))
		}
		if s.used[a] {
			return undo(api.NeutronError(http.StatusConflict, "IpAddressAlreadyAllocated", "IP address %s already allocated in subnet %s", a, s.id))
		}
		s.used[a] = true
		out = append(out, FixedIP{s.id, a})
	}
	return out, api.Reply{}
}

func (svc *Service) allocateAny(n *Net) ([]FixedIP, api.Reply) {
	var out []FixedIP
	tried := map[int]bool{}
	for _, id := range n.Subnets {
		s, _ := svc.subnets.Get(id)
		if got := slices.ContainsFunc(out, func(f FixedIP) bool { return f.Address.Is4() == s.cidr.Addr().Is4() }); got {
			continue
		}
		tried[s.version()] = true
		if a, found := s.take(); found {
			out = append(out, FixedIP{s.id, a})
		}
	}
	if len(out) < len(tried) {
		svc.free(out)
		return nil, noAddress(n.ID)
	}
	return out, api.Reply{}
}

func (svc *Service) subnetFor(n *Net, w fixedIPSpec) (*subnet, api.Reply) {
	address, _ := netip.ParseAddr(w.IPAddress)
	for _, id := range n.Subnets {
		s, _ := svc.subnets.Get(id)
		if s.id == w.SubnetID || (w.SubnetID == "" && s.cidr.Contains(address)) {
			return s, api.Reply{}
		}
	}
	if _, elsewhere := svc.subnets.Get(w.SubnetID); elsewhere {
		return nil, api.NeutronError(http.StatusBadRequest, "InvalidInput",
			"Invalid input for operation: Failed to create port on network %s, because fixed_ips included invalid subnet %s.", n.ID, w.SubnetID)
	}
	if w.SubnetID == "" {
		return nil, api.NeutronError(http.StatusBadRequest, "InvalidIpForNetwork", "IP address %s is not a valid IP for any of the subnets on the specified network.", w.IPAddress)
	}
	return nil, api.NeutronError(http.StatusNotFound, "SubnetNotFound", "Subnet %s could not be found.", w.SubnetID)
}

func noAddress(network string) api.Reply {
	return api.NeutronError(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", network)
}

func (svc *Service) free(ips []FixedIP) {
	for _, f := range ips {
		if s, known := svc.subnets.Get(f.subnet); known {
			delete(s.used, f.Address)
		}
	}
}

func (svc *Service) listPorts(q *api.Request) api.Reply {
	list := make([]wire.Object, 0, svc.ports.Len())
	query := q.URL.Query()
	for _, p := range svc.ports.All() {
		if q.Caller.Sees(p.Project) && p.mayMatch(query) {
			list = append(list, p.View())
		}
	}
	return q.Page("ports", list, (&Port{}).View())
}

// mayMatch reports whether a port may match the query. It checks only the most common filters, because it must
// be cheap: ports that it rules out are not rendered.
func (p *Port) mayMatch(query map[string][]string) bool {
	for key, value := range map[string]string{"description": p.description, "device_id": p.DeviceID, "name": p.name, "network_id": p.Network} {
		if wanted, asked := query[key]; asked && !slices.ContainsFunc(wanted, func(w string) bool { return wire.SameText(w, value) }) {
			return false
		}
	}
	return true
}

func (svc *Service) ownPort(q *api.Request, id string) (*Port, api.Reply) {
	p, known := svc.ports.Get(id)
	if !known || !q.Caller.Sees(p.Project) {
		return nil, api.NeutronError(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", id)
	}
	return p, api.Reply{}
}

func (svc *Service) showPort(q *api.Request) api.Reply {
	p, refused := svc.ownPort(q, q.PathValue("id"))
	if p == nil {
		return refused
	}
	return api.Ok("port", p.View().MaybePick(q.URL.Query()["fields"]))
}

func (svc *Service) updatePort(q *api.Request) api.Reply {
	var in struct {
		Port portSpec `json:"port"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	p, refused := svc.ownPort(q, q.PathValue("id"))
	if p == nil {
		return refused
	}
	next := *p
	if refused := svc.applyPort(q, &next, &in.Port); refused.Status != 0 {
		return refused
	}
	if in.Port.FixedIPs != nil {
		n, _ := svc.networks.Get(p.Network)
		svc.free(p.FixedIPs)
		ips, refused := svc.allocate(n, *in.Port.FixedIPs)
		if refused.Status != 0 {
			svc.retake(p.FixedIPs)
			return refused
		}
		next.FixedIPs = ips
	}
	*p = next
	p.touch(q.Now)
	svc.addressesChanged(p.DeviceID)
	return api.Ok("port", p.View())
}

func (svc *Service) retake(ips []FixedIP) {
	for _, f := range ips {
		if s, known := svc.subnets.Get(f.subnet); known {
			s.used[f.Address] = true
		}
	}
}

func (svc *Service) deletePort(q *api.Request) api.Reply {
	p, refused := svc.ownPort(q, q.PathValue("id"))
	if p == nil {
		return refused
	}
	if refused := p.inTrunk(); refused.Status != 0 {
		return refused
	}
	svc.DropPort(p)
	return api.Empty(http.StatusNoContent)
}

// DropPort deletes a port. Its floating IP stays, without the port.
func (svc *Service) DropPort(p *Port) {
	svc.free(p.FixedIPs)
	svc.ports.Remove(p.ID)
	svc.portCount[p.Project]--
	for _, f := range svc.floatingIPs.All() {
		if f.port == p.ID {
			f.associate(nil, svc.kernel.Now())
		}
	}
	svc.addressesChanged(p.DeviceID)
}
