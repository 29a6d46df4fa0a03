package openstack

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
)

// Prepare creates the ports, and then the floating IP on the first port, so that the floating IP never exists unattached.
func (i *instance) Prepare(ctx context.Context) error {
	if err := i.ensurePorts(ctx); err != nil {
		return err
	}
	return i.ensureFloatingIP(ctx)
}

// ensurePorts creates the Machine's missing ports, one for each network. It replaces each port that a server create with an unknown
// outcome may use, and each that is found on a server that is gone.
func (i *instance) ensurePorts(ctx context.Context) error {
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return err
	}
	defer end()
	for n := range plan.Ports {
		if err := i.ensurePort(ctx, p, plan, n); err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) ensurePort(ctx context.Context, p *inventory.Project, plan *catalog.Plan, n int) error {
	m := i.tag(cloud.ResourcePort, n)
	own := p.ResourcesOf(i.machine.UID)
	have, known := own.Ports[n]
	if known && have.Doubtful || !known && slices.Contains(own.InDoubt, m) {
		found, err := i.find(ctx, p, m)
		if err != nil {
			return err
		}
		p.With(func(s *state.Project) {
			if !found {
				s.Addresses.Forget(m, have.ID)
			}
			have, known = s.Addresses.Ports(i.machine.UID)[n]
			// When Nova fails to clean up, a port stays on a server that is gone, and Nova refuses every other server on it.
			have.NamedByCreate = have.NamedByCreate || s.IsGone(have.DeviceID)
		})
	}
	switch {
	case known && (!have.NamedByCreate || i.facts(p).Server != nil):
		return nil
	case known:
		if err := i.replacePort(ctx, p, n, have); err != nil {
			return err
		}
	}
	var err error
	p.With(func(s *state.Project) { err = s.CloseCreate(m, i.now()) })
	if err != nil {
		return err
	}
	var made state.Port
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("creating port %d of server %s", n, i.machine.ServerName)}
	err = i.do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return ports.Create(ctx, api, portRequest(m, i.machine.ServerName, plan)).ExtractInto(&made)
	})
	if err != nil {
		i.noteRefusal(p, m, err, i.missingQuota(p.ResourcesOf(i.machine.UID), plan))
		return err
	}
	p.With(func(s *state.Project) { s.AddPort(m, made, i.now()) })
	return nil
}

// ensureFloatingIP creates a floating IP with the owner tag on the first port when the spec asks for one, and moves the floating IP
// to the first port when that port was replaced. It never attaches an address that drover did not create (MC-50), and only the
// first network gets a floating IP (MC-51).
func (i *instance) ensureFloatingIP(ctx context.Context) error {
	if i.spec != nil && i.spec.FloatingIPPool == "" || i.machine.FloatingIPID != "" {
		return nil
	}
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return err
	}
	defer end()
	own := p.ResourcesOf(i.machine.UID)
	port, ok := own.Ports[0]
	switch {
	case own.FloatingIP != nil:
		return i.moveIP(ctx, p)
	case !ok:
		return i.errNoPort()
	}
	m := i.tag(cloud.ResourceFloatingIP, 0)
	if slices.Contains(own.InDoubt, m) {
		found, err := i.find(ctx, p, m)
		if err != nil {
			return err
		}
		if found {
			return i.moveIP(ctx, p)
		}
	}
	p.With(func(s *state.Project) { err = s.CloseCreate(m, i.now()) })
	if err != nil {
		return err
	}
	var made state.FloatingIP
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("creating the floating IP of server %s from %s", i.machine.ServerName, i.spec.FloatingIPPool)}
	err = i.do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Create(ctx, api, floatingIPRequest(m, plan, port.ID)).ExtractInto(&made)
	})
	if err != nil {
		err = poolError(err)
		if fault.Is(err, fault.Conflict) {
			// The create of a previous leader may have succeeded after the floating IPs were listed.
			if found, looked := i.find(ctx, p, m); looked == nil && found {
				return nil
			}
		}
		i.noteFailure(p, m, err, i.missingQuota(p.ResourcesOf(i.machine.UID), plan))
		return err
	}
	p.With(func(s *state.Project) { s.SetFloatingIP(m, made, i.now()) })
	return nil
}

// poolError returns err with a remedy, and with the code for an exhausted floating IP pool if err means that a network has no free
// address. Neutron reports a full pool and a full subnet with the same error (seen in Zed), so poolError is called only for a failed
// request for a floating IP.
func poolError(err error) error {
	pool := *fault.Of(err)
	switch pool.Code {
	case fault.CodeAddressesExhausted:
		pool.Code = fault.CodeIPPoolExhausted
	case fault.CodeIPPoolExhausted, fault.CodeFloatingIPQuotaExceeded:
	default:
		return err
	}
	pool.Message = fault.Line(pool.Message + "; drover takes no floating IP that exists already: delete those of the project that nobody uses")
	pool.Err = err
	return &pool
}

// noteRefusal records a failed create that needed the quota want, and which may have succeeded in the cloud. When the cloud does not have
// what the template names, the catalog's cache is out of date: the resource may have been replaced under its name, as images are. The
// Machine's next create looks the name up again.
func (i *instance) noteRefusal(p *inventory.Project, m state.Tag, err error, want state.Amounts) {
	p.CreateFailed(m, err, want)
	if code := fault.Of(err).Code; fault.Unmatched(code) {
		i.connection.catalog.Forget(code)
		i.plan = nil
	}
}

// noteFailure records a failed create that uses the Machine's ports. When the cloud refused the create, a port may be gone: drover looks
// the ports up before it uses them again.
func (i *instance) noteFailure(p *inventory.Project, m state.Tag, err error, want state.Amounts) {
	i.noteRefusal(p, m, err, want)
	switch fault.Of(err).Class {
	case fault.Invalid, fault.NotFound, fault.Conflict:
		p.With(func(s *state.Project) { s.Addresses.DoubtPorts(i.machine.UID) })
	}
}

// EnsureServer returns the Machine's server, or creates one on the ports from Prepare.
func (i *instance) EnsureServer(ctx context.Context, userData []byte) (*cloud.Server, error) {
	p, err := i.ready()
	if err != nil {
		return nil, err
	}
	if s := i.facts(p).Server; s != nil {
		return s, nil
	}
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	encoded, err := encodeUserData(userData)
	if err != nil {
		return nil, err
	}
	portIDs, err := i.portIDs(p, plan)
	if err != nil {
		return nil, err
	}
	ended, err := i.releaseFormerVolumes(ctx, p)
	if err != nil {
		return nil, err
	}
	want := i.missingQuota(p.ResourcesOf(i.machine.UID), plan)
	made, err := i.createServer(ctx, plan, portIDs, encoded)
	if err != nil {
		i.noteFailure(p, i.tag(cloud.ResourceServer, 0), err, want)
		return nil, err
	}
	p.AddServer(i.machine.UID, made, i.machine.ServerName)
	if s := i.facts(p).Server; s != nil {
		s.Record.(*provider.Record).EndedVolumes = ended
		return s, nil
	}
	return nil, fault.New(fault.Transient, fault.CodeUnsettled, "server %s was deleted before Nova answered the request to create it", made)
}

// portIDs returns the IDs of the ports in the order of their networks. It returns Conflict when a port must be created or replaced
// first.
func (i *instance) portIDs(p *inventory.Project, plan *catalog.Plan) ([]string, error) {
	known := p.ResourcesOf(i.machine.UID).Ports
	var ids []string
	for n := range plan.Ports {
		port, ok := known[n]
		if !ok || port.Doubtful || port.NamedByCreate {
			return nil, fault.New(fault.Conflict, fault.CodeConflict, "port %d of server %s must be created first", n, i.machine.ServerName)
		}
		ids = append(ids, port.ID)
	}
	return ids, nil
}

// createServer creates the server and returns only its ID, since Nova's answer has little more.
func (i *instance) createServer(ctx context.Context, plan *catalog.Plan, portIDs []string, userData []byte) (id string, err error) {
	call := client.Call{Service: client.Compute, Doing: "creating server " + i.machine.ServerName, Version: createVersion(i.spec)}
	err = i.do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		request, hints := serverRequest(i.tag(cloud.ResourceServer, 0), i.machine.ServerName, i.spec, plan, portIDs, userData)
		s, err := servers.Create(ctx, api, request, hints).Extract()
		if err == nil {
			id = s.ID
		}
		return err
	})
	return id, err
}

// missingQuota returns the quota that the Machine needs besides the resources that it has.
func (i *instance) missingQuota(own state.Resources, plan *catalog.Plan) state.Amounts {
	want := state.Amounts{state.Instances: 1, state.Cores: plan.Flavor.VCPUs, state.RAMMiB: plan.Flavor.RAM}
	want[state.Ports] = max(0, len(plan.Ports)-len(own.Ports))
	if own.FloatingIP == nil && i.spec.FloatingIPPool != "" && i.machine.FloatingIPID == "" {
		want[state.FloatingIPs] = 1
	}
	if i.spec.RootDiskSizeGB > 0 {
		want[state.Volumes], want[state.VolumeGiB] = 1, i.spec.RootDiskSizeGB
	}
	return want
}
