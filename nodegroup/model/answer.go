package model

import (
	"slices"

	"github.com/drover-project/drover/nodegroup/model/membership"
)

// maxAnswer is how many bytes the instances of one answer may have on the wire. The stock externalgrpc client sets no limit of
// its own, so gRPC's default limit of 4 MiB applies to what it receives, and the protocol has no pages (CA-C55). maxAnswer leaves
// room for the rest of the answer.
const maxAnswer = 4<<20 - 64<<10

// instanceOverhead is how many bytes an instance has on the wire in addition to its strings: tags, lengths, state and error
// class.
const instanceOverhead = 24

// wireSize returns an upper bound of an instance's bytes on the wire.
func (i *Instance) wireSize() int {
	size := len(i.ID) + instanceOverhead
	if i.Error != nil {
		size += len(i.Error.Code) + len(i.Error.Message)
	}
	return size
}

// Shown returns the group's instances that fit into one answer: first the instances of its Machines, then a placeholder for
// each replica without a Machine. The placeholders are made at each call. They are numbered, so that most names stay the same.
//
// An answer holds some 70 000 instances with names of usual length; further instances are left out. Placeholders are left out
// first, because the autoscaler counts upcoming nodes by the target size and not by instances. When the node of a replica without a
// placeholder never registers, the autoscaler only calls DecreaseTargetSize instead of DeleteNodes. Left out next are instances
// whose node has registered, which the autoscaler knows from Kubernetes. Instances without a node are left out last.
func (g *Group) Shown() []Instance {
	room := maxAnswer
	for i := range g.instances {
		room -= g.instances[i].wireSize()
	}
	if room < 0 {
		return g.fitting()
	}
	units := g.unitsWithin(room)
	list := append(make([]Instance, 0, len(g.instances)+int(units)), g.instances...)
	for n := range units {
		list = append(list, g.placeholder(n))
	}
	return list
}

// placeholder returns the instance for a replica without a Machine.
func (g *Group) placeholder(ordinal int32) Instance {
	i := Instance{ID: g.unit(ordinal), State: Creating}
	if ordinal < g.refusals {
		i.Error = g.refused
	}
	return i
}

// unit returns the id of the placeholder with the given ordinal, which stands for a replica without a Machine.
func (g *Group) unit(ordinal int32) string {
	return membership.Placeholder{Group: g.ID, Series: g.Owner.PlaceholderSeries(), Ordinal: ordinal}.String()
}

// unitsWithin returns how many placeholders fit into the given number of bytes.
func (g *Group) unitsWithin(room int) int32 {
	if g.Gap == 0 {
		return 0
	}
	longest := Instance{ID: g.unit(g.Gap - 1), Error: g.refused}
	return int32(min(int(g.Gap), room/longest.wireSize()))
}

// fitting returns the instances of the Machines that fit into one answer.
func (g *Group) fitting() []Instance {
	room, keep := maxAnswer, make([]bool, len(g.instances))
	for _, running := range []bool{false, true} {
		for n := range g.instances {
			i := &g.instances[n]
			if (i.State == Running) == running && room >= i.wireSize() {
				room -= i.wireSize()
				keep[n] = true
			}
		}
	}
	n := -1
	return slices.DeleteFunc(slices.Clone(g.instances), func(Instance) bool { n++; return !keep[n] })
}
