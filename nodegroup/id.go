package nodegroup

import (
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/api/providerid"
)

const (
	deploymentKind = "MachineDeployment"
	setKind        = "MachineSet"
	// machinePart marks the placeholder of a Machine; that of a unit without a Machine has a number there.
	machinePart = "machine"
	// templatePart ends the provider ID of a template node.
	templatePart = "template"
)

// ID returns the id of a MachineDeployment's node group: MachineDeployment/<namespace>/<name> (CA-C20).
func ID(namespace, name string) string { return deploymentKind + "/" + namespace + "/" + name }

// setID returns the id of the node group of a MachineSet that belongs to no MachineDeployment.
func setID(namespace, name string) string { return setKind + "/" + namespace + "/" + name }

// splitID returns the kind in a group's id, and namespace/name.
func splitID(id string) (kind, key string) {
	kind, key, _ = strings.Cut(id, "/")
	return kind, key
}

// placeholder is the id of an instance that has no node yet. It names its group, so that every replica can resolve it at any
// time, also long after the Machine is gone (CA-C28).
type placeholder struct {
	group string
	// machine is the Machine's name; empty for a unit without a Machine.
	machine string
	// series and ordinal number the units without a Machine.
	series, ordinal int32
	// template is set for the group's template node.
	template bool
}

// String returns the placeholder as the autoscaler is shown it.
func (p placeholder) String() string {
	switch {
	case p.template:
		return p.group + "/" + templatePart
	case p.machine != "":
		return p.group + "/" + machinePart + "/" + p.machine
	}
	return p.group + "/" + strconv.Itoa(int(p.series)) + "/" + strconv.Itoa(int(p.ordinal))
}

// parsePlaceholder reads an id that String wrote; it returns false for any other.
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

// ordinalOf reads a number as String writes it: not 01 and not +1.
func ordinalOf(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// namespace returns the namespace of the group.
func (p placeholder) namespace() string {
	_, key := splitID(p.group)
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// nodeServer returns what the Nodes of one server have in common: the server's ID, else the whole provider ID in lower case,
// which is that of no Machine.
func nodeServer(providerID string) string {
	if server := providerid.Server(providerID); server != "" {
		return server
	}
	return strings.ToLower(providerID)
}
