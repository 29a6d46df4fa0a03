package neutron

import (
	"net/http"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// trunk joins a parent port and subports, by whose addresses a server is reached in further networks.
type trunk struct {
	stamps
	id, project, parent string
	subports            []subport
}

type subport struct {
	Port string `json:"port_id"`
	Kind string `json:"segmentation_type"`
	Tag  int    `json:"segmentation_id"`
}

func (t *trunk) subportViews() []wire.Object {
	out := make([]wire.Object, 0, len(t.subports))
	for _, s := range t.subports {
		out = append(out, wire.Object{{"segmentation_id", s.Tag}, {"segmentation_type", s.Kind}, {"port_id", s.Port}})
	}
	return out
}

func (t *trunk) view() wire.Object {
	return t.stamps.view(wire.Object{
		{"id", t.id}, {"name", ""}, {"description", ""}, {"admin_state_up", true}, {"status", "DOWN"}, {"port_id", t.parent}, {"sub_ports", t.subportViews()},
	}, t.project)
}

func (svc *Service) createTrunk(q *api.Request) api.Reply {
	var in struct {
		Trunk struct {
			Port     string    `json:"port_id"`
			Subports []subport `json:"sub_ports"`
		} `json:"trunk"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	parent, refused := svc.ownPort(q, in.Trunk.Port)
	switch {
	case parent == nil:
		return refused
	case parent.trunk != nil && parent.trunk.parent == parent.ID:
		return api.NeutronError(http.StatusConflict, "ParentPortInUse", "Port %s is currently in use and is not eligible for use as a parent port.", parent.ID)
	case parent.trunk != nil:
		return trunkPortInUse(parent)
	}
	t := &trunk{id: svc.kernel.NewID(), project: q.Project(), parent: parent.ID, subports: in.Trunk.Subports, stamps: newStamps(q.Now)}
	members := []*Port{parent}
	for _, s := range t.subports {
		p, refused := svc.ownPort(q, s.Port)
		switch {
		case p == nil:
			return refused
		case p.trunk != nil:
			return trunkPortInUse(p)
		}
		members = append(members, p)
	}
	for _, p := range members {
		p.trunk = t
	}
	return api.Reply{Status: http.StatusCreated, Body: wire.Object{{"trunk", t.view()}}}
}

func trunkPortInUse(p *Port) api.Reply {
	return api.NeutronError(http.StatusConflict, "TrunkPortInUse", "Port %s is in use by another trunk.", p.ID)
}

// inTrunk refuses to delete a port that a trunk uses.
func (p *Port) inTrunk() api.Reply {
	switch {
	case p.trunk == nil:
		return api.Reply{}
	case p.trunk.parent == p.ID:
		return api.NeutronError(http.StatusConflict, "PortInUseAsTrunkParent", "Port %s is currently a parent port for trunk %s.", p.ID, p.trunk.id)
	}
	return api.NeutronError(http.StatusConflict, "PortInUseAsSubPort", "Port %s is currently a subport for trunk %s.", p.ID, p.trunk.id)
}

func (svc *Service) deleteTrunk(q *api.Request) api.Reply {
	id, found := q.PathValue("id"), false
	for _, p := range svc.ports.All() {
		if p.trunk != nil && p.trunk.id == id && q.Caller.Sees(p.trunk.project) {
			p.trunk, found = nil, true
		}
	}
	if !found {
		return api.NeutronError(http.StatusNotFound, "TrunkNotFound", "Trunk %s could not be found.", id)
	}
	return api.Empty(http.StatusNoContent)
}
