package nodegroup

import (
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/api/providerid"
)

// annotationFake is what cluster-autoscaler puts on the nodes that it makes up for instances without a node.
const annotationFake = "k8s.io/cluster-autoscaler/fake-node-reason"

const (
	deploymentKind = "MachineDeployment"
	setKind        = "MachineSet"
	// machinePart tells the placeholder of a Machine from that of a replica without one.
	machinePart = "machine"
	// templatePart ends the provider ID of a template node.
	templatePart = "template"
)

// ID is the id of the node group that a MachineDeployment is: MachineDeployment/<namespace>/<name> (CA-C20).
func ID(namespace, name string) string { return deploymentKind + "/" + namespace + "/" + name }

// setID is the id of the node group that a MachineSet without a MachineDeployment is.
func setID(namespace, name string) string { return setKind + "/" + namespace + "/" + name }

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
	if !strings.HasPrefix(id, deploymentKind+"/") && !strings.HasPrefix(id, setKind+"/") {
		return placeholder{}, false
	}
	parts := strings.Split(id, "/")
	if len(parts) < 4 || len(parts) > 5 || parts[1] == "" || parts[2] == "" {
		return placeholder{}, false
	}
	p := placeholder{group: parts[0] + "/" + parts[1] + "/" + parts[2]}
	switch {
	case len(parts) == 4:
		p.template = true
		return p, parts[3] == templatePart
	case parts[3] == machinePart:
		p.machine = parts[4]
		return p, p.machine != ""
	}
	series, first := ordinalOf(parts[3])
	ordinal, second := ordinalOf(parts[4])
	p.series, p.ordinal = series, ordinal
	return p, first && second
}

// ordinalOf reads a number as String writes it: 01 and +1 name nothing.
func ordinalOf(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// namespace is that of the group.
func (p placeholder) namespace() string {
	_, rest, _ := strings.Cut(p.group, "/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// nodeServer is what Nodes of the same server have in common: the server's ID, else the whole provider ID, which is no
// Machine's then.
func nodeServer(providerID string) string {
	if server := providerid.Server(providerID); server != "" {
		return server
	}
	return strings.ToLower(providerID)
}

// splitID gives the kind of a group's id, and namespace/name.
func splitID(id string) (kind, key string) {
	kind, key, _ = strings.Cut(id, "/")
	return kind, key
}
