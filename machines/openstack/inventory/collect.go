package inventory

import (
	"context"
	"strings"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/calls"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// Tagged returns the resources of this cluster in the project, from the last lists. It makes no call.
func (p *Project) Tagged() cloud.Project {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cloud.Project{Name: p.site.String(), Unknown: p.known.Doubt(), Resources: p.known.Tagged()}
}

// Collect deletes a resource whose Machine does not exist any more, after it has looked the resource up: see [cloud.Inventory].
func (p *Project) Collect(ctx context.Context, r cloud.Resource) error {
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	check := p.checkAddress
	if r.Kind == cloud.ResourceServer {
		check = p.checkServer
	}
	err := check(ctx, s, r)
	if err == nil {
		err = calls.Delete(ctx, s, owner.Kind(r.Kind), r.ID, "which has no Machine")
	}
	if err := fault.IgnoreNotFound(err); err != nil {
		return err
	}
	p.mu.Lock()
	p.known.Collected(r, p.clock.Now())
	p.mu.Unlock()
	p.Kick()
	return nil
}

// leftAlone returns the error that explains why Collect does not delete a resource.
func leftAlone(r cloud.Resource, why string, args ...any) error {
	return fault.New(fault.Conflict, fault.CodeConflict, "%s %s is not deleted: "+why, append([]any{r.Kind, r.ID}, args...)...)
}

// checkServer returns an error unless the server has the owner tag of this cluster and of the resource's Machine.
func (p *Project) checkServer(ctx context.Context, s *client.Session, r cloud.Resource) error {
	row, err := calls.LookUpServer(ctx, r.ID, s.Do)
	if err != nil {
		return err
	}
	if tags := row.Tags(); !p.cluster.Has(tags) || tags.Machine != r.Machine {
		return leftAlone(r, "its metadata does not name this cluster and Machine %s", r.Machine)
	}
	return nil
}

// checkAddress returns an error unless the port or floating IP has the owner tag of this cluster and the Machine, and no living server uses
// it.
func (p *Project) checkAddress(ctx context.Context, s *client.Session, r cloud.Resource) error {
	description, port, err := lookUpAddress(ctx, s, r)
	if err != nil {
		return err
	}
	if tag, ours := p.cluster.Read(owner.Kind(r.Kind), description); !ours || tag.Machine != r.Machine {
		return leftAlone(r, "its description does not name this cluster and Machine %s", r.Machine)
	}
	return checkUnused(ctx, s, r, port)
}

// lookUpAddress returns the description of a port or floating IP, and the port itself or that of the floating IP, which is empty when the
// floating IP has no port. A floating IP whose port is gone is unused.
func lookUpAddress(ctx context.Context, s *client.Session, r cloud.Resource) (description string, port *PortRow, err error) {
	if r.Kind == cloud.ResourcePort {
		port, err = calls.LookUpPort(ctx, s, r.ID)
		return port.Description, port, err
	}
	ip, err := calls.LookUpFloatingIP(ctx, s, r.ID)
	if err != nil || ip.PortID == "" {
		return ip.Description, &PortRow{}, err
	}
	port, err = calls.LookUpPort(ctx, s, ip.PortID)
	return ip.Description, port, fault.IgnoreNotFound(err)
}

// serverPorts is the prefix of the device_owner of a server's port; the server's zone follows it.
const serverPorts = "compute:"

// checkUnused returns an error if an existing server, or another device, uses the port.
func checkUnused(ctx context.Context, s *client.Session, r cloud.Resource, port *PortRow) error {
	switch {
	case port.DeviceOwner != "" && !strings.HasPrefix(port.DeviceOwner, serverPorts):
		return leftAlone(r, "port %s is used by %s %s", port.ID, port.DeviceOwner, port.DeviceID)
	case port.DeviceID == "":
		return nil
	}
	_, err := calls.LookUpServer(ctx, port.DeviceID, s.Do)
	if err == nil {
		return leftAlone(r, "server %s exists and uses port %s", port.DeviceID, port.ID)
	}
	return fault.IgnoreNotFound(err)
}

// ProveAbsent reports whether a server of any Machine is proven not to exist in the project: it is missing from the complete lists,
// and a GET by its ID answers 404. It returns an error, with the reason, when it cannot decide this.
func (p *Project) ProveAbsent(ctx context.Context, serverID string) (bool, error) {
	p.mu.Lock()
	s, doubt, lacks := p.session, p.known.Doubt(), p.known.Lacks(serverID)
	p.mu.Unlock()
	switch {
	case doubt != "":
		return false, fault.New(fault.Transient, fault.CodeUnsettled, "%s", doubt)
	case !lacks:
		return false, nil
	}
	_, err := calls.LookUpServer(ctx, serverID, s.Do)
	return fault.Is(err, fault.NotFound), fault.IgnoreNotFound(err)
}
