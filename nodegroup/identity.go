package nodegroup

import (
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// AnnotationGroup holds, on the template node that the autoscaler is shown, the id of the group it stands for. It is an
// annotation, because a label would make sister groups look different to the autoscaler (CA-C102).
const AnnotationGroup = v1alpha1.Prefix + "node-group"

// annotationFake is what cluster-autoscaler puts on the nodes that it makes up for instances without a node.
const annotationFake = "k8s.io/cluster-autoscaler/fake-node-reason"

const (
	idKind = "MachineDeployment"
	// machinePart tells the placeholder of a Machine from that of a replica without one.
	machinePart = "machine"
	// templatePart ends the provider ID of a template node.
	templatePart = "template"
)

// ID is the id of the node group that a MachineDeployment is: MachineDeployment/<namespace>/<name> (CA-C20).
func ID(namespace, name string) string { return idKind + "/" + namespace + "/" + name }

// placeholder is the id of an instance that has no node yet. It names its group, so that it can be resolved at any time,
// by any replica, also when what it stood for is long gone (CA-C28).
type placeholder struct {
	group string
	// machine is the Machine's name; empty for a unit that has no Machine.
	machine string
	// series and ordinal number the units without a Machine.
	series, ordinal int32
	// template: it is the group's template node.
	template bool
}

func (p placeholder) String() string {
	switch {
	case p.template:
		return p.group + "/" + templatePart
	case p.machine != "":
		return p.group + "/" + machinePart + "/" + p.machine
	}
	return p.group + "/" + strconv.Itoa(int(p.series)) + "/" + strconv.Itoa(int(p.ordinal))
}

// parsePlaceholder reads an id that String wrote; false for anything else.
func parsePlaceholder(id string) (placeholder, bool) {
	if !strings.HasPrefix(id, idKind+"/") {
		return placeholder{}, false
	}
	parts := strings.Split(id, "/")
	if len(parts) < 4 || len(parts) > 5 || parts[1] == "" || parts[2] == "" {
		return placeholder{}, false
	}
	p := placeholder{group: ID(parts[1], parts[2])}
	switch {
	case len(parts) == 4:
		p.template = true
		return p, parts[3] == templatePart
	case parts[3] == machinePart:
		p.machine = parts[4]
		return p, p.machine != ""
	}
	series, err := strconv.ParseInt(parts[3], 10, 32)
	if err != nil || series < 0 {
		return placeholder{}, false
	}
	ordinal, err := strconv.ParseInt(parts[4], 10, 32)
	if err != nil || ordinal < 0 {
		return placeholder{}, false
	}
	p.series, p.ordinal = int32(series), int32(ordinal)
	return p, true
}

// serverID is the last part of a provider ID, in lower case: openstack:///<uuid>, openstack://<region>/<uuid> and the
// bare uuid name the same server.
func serverID(providerID string) string {
	if i := strings.LastIndexByte(providerID, '/'); i >= 0 {
		providerID = providerID[i+1:]
	}
	return strings.ToLower(providerID)
}
