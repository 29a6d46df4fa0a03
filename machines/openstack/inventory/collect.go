package inventory

import (
	"context"
	"strings"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// Tagged returns the resources of this cluster in the project, from the last lists. It makes no call.
func (p *Project) Tagged() (all cloud.Project) {
	p.With(func(k *state.Project) {
		all = cloud.Project{Name: p.o.Site.String(), Unknown: k.Doubt(), Resources: k.Tagged()}
	})
	return all
}

// Collect deletes a resource whose Machine does not exist any more, after it has looked the resource up: see [cloud.Inventory].
func (p *Project) Collect(ctx context.Context, r cloud.Resource) error {
	s := p.session.Load()
	err := p.check(ctx, s, r)
	if err == nil {
		err = deleteResource(ctx, s, r.Kind, r.ID, "which has no Machine")
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	p.With(func(k *state.Project) { k.Collected(r, p.o.Clock.Now()) })
	p.Kick()
	return nil
}

// check looks the resource up. It returns an error when the resource must not be deleted, and NotFound when it does not exist any more.
func (p *Project) check(ctx context.Context, s *client.Session, r cloud.Resource) error {
	switch r.Kind {
	case cloud.ResourceServer:
		return p.checkServer(ctx, s, r)
	case cloud.ResourcePort:
		return p.checkPort(ctx, s, r)
	}
	return p.checkFloatingIP(ctx, s, r)
}

// leftAlone returns the error that explains why Collect does not delete a resource.
func leftAlone(r cloud.Resource, why string, args ...any) error {
	return fault.New(fault.Conflict, fault.CodeConflict, "%s %s is not deleted: "+why, append([]any{r.Kind, r.ID}, args...)...)
}

// checkServer returns an error unless the server has the owner tag of this cluster and of the resource's Machine.
func (p *Project) checkServer(ctx context.Context, s *client.Session, r cloud.Resource) error {
	row, err := lookUpServer(ctx, r.ID, s.Do)
	if err != nil {
		return err
	}
	if !p.o.Cluster.Has(row.Metadata) || row.Metadata.Machine != r.Machine {
		return leftAlone(r, "its metadata does not name this cluster and Machine %s", r.Machine)
	}
	return nil
}

// checkPort returns an error unless the port has the owner tag of this cluster and the Machine, and no living server uses it.
func (p *Project) checkPort(ctx context.Context, s *client.Session, r cloud.Resource) error {
	row, err := lookUpPort(ctx, s, r.ID)
	if err != nil {
		return err
	}
	if err := p.checkTag(row.Description, r); err != nil {
		return err
	}
	return p.checkUnused(ctx, s, r, row)
}

// checkFloatingIP returns an error unless the floating IP has the owner tag of this cluster and the Machine, and no living server
// uses its port. A floating IP whose port is gone is unused.
func (p *Project) checkFloatingIP(ctx context.Context, s *client.Session, r cloud.Resource) error {
	row, err := lookUpFloatingIP(ctx, s, r.ID)
	if err != nil {
		return err
	}
	if err := p.checkTag(row.Description, r); err != nil || row.PortID == "" {
		return err
	}
	port, err := lookUpPort(ctx, s, row.PortID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.checkUnused(ctx, s, r, port)
}

func (p *Project) checkTag(description string, r cloud.Resource) error {
	if tag, ours := p.o.Cluster.Read(r.Kind, description); !ours || tag.Machine != r.Machine {
		return leftAlone(r, "its description does not name this cluster and Machine %s", r.Machine)
	}
	return nil
}

// serverPorts is the prefix of the device_owner of a server's port; the server's zone follows it.
const serverPorts = "compute:"

// checkUnused returns an error if an existing server, or another device, uses the port.
func (p *Project) checkUnused(ctx context.Context, s *client.Session, r cloud.Resource, port *state.Port) error {
	switch {
	case port.DeviceOwner != "" && !strings.HasPrefix(port.DeviceOwner, serverPorts):
		return leftAlone(r, "port %s is used by %s %s", port.ID, port.DeviceOwner, port.DeviceID)
	case port.DeviceID == "":
		return nil
	}
	_, err := lookUpServer(ctx, port.DeviceID, s.Do)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	}
	return leftAlone(r, "server %s exists and uses port %s", port.DeviceID, port.ID)
}

// ProveAbsent reports whether a server of any Machine is proven not to exist in the project: it is missing from the complete lists,
// and a GET by its ID answers 404. It returns an error, with the reason, when it cannot decide this.
func (p *Project) ProveAbsent(ctx context.Context, serverID string) (bool, error) {
	var doubt string
	var lacks bool
	p.With(func(k *state.Project) { doubt, lacks = k.Doubt(), k.Lacks(serverID) })
	switch {
	case doubt != "":
		return false, fault.New(fault.Transient, fault.CodeUnsettled, "%s", doubt)
	case !lacks:
		return false, nil
	}
	switch _, err := lookUpServer(ctx, serverID, p.session.Load().Do); {
	case err == nil:
		return false, nil
	case fault.Is(err, fault.NotFound):
		return true, nil
	default:
		return false, err
	}
}
