package membership

import (
	"strconv"
	"strings"
)

const (
	deploymentKind = "MachineDeployment"
	setKind        = "MachineSet"
	// machinePart precedes the Machine's name in the placeholder of a Machine. The placeholder of a replica without a Machine has
	// two numbers instead.
	machinePart = "machine"
	// templatePart is the last part of the provider ID of a template node.
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

// Placeholder is the id of an instance that has no node yet. It names its group, so that every replica of drover can resolve
// it at any time, even long after the Machine was deleted (CA-C28).
type Placeholder struct {
	Group string
	// Machine is the name of the instance's Machine; empty when the instance has no Machine yet.
	Machine string
	// Series and Ordinal are the numbers in the placeholder of a replica without a Machine.
	Series, Ordinal int32
	// Template is true for the group's template node.
	Template bool
}

// String returns the placeholder as the autoscaler receives it.
func (p Placeholder) String() string {
	switch {
	case p.Template:
		return p.Group + "/" + templatePart
	case p.Machine != "":
		return p.Group + "/" + machinePart + "/" + p.Machine
	}
	return p.Group + "/" + strconv.Itoa(int(p.Series)) + "/" + strconv.Itoa(int(p.Ordinal))
}

// parsePlaceholder parses an id that String wrote. It returns false for any other id.
func parsePlaceholder(id string) (Placeholder, bool) {
	if !strings.HasPrefix(id, deploymentKind+"/") && !strings.HasPrefix(id, setKind+"/") {
		return Placeholder{}, false
	}
	parts := strings.Split(id, "/")
	if len(parts) < 4 || len(parts) > 5 || parts[1] == "" || parts[2] == "" {
		return Placeholder{}, false
	}
	p := Placeholder{Group: parts[0] + "/" + parts[1] + "/" + parts[2]}
	switch {
	case len(parts) == 4:
		p.Template = true
		return p, parts[3] == templatePart
	case parts[3] == machinePart:
		p.Machine = parts[4]
		return p, p.Machine != ""
	}
	series, first := ordinalOf(parts[3])
	ordinal, second := ordinalOf(parts[4])
	p.Series, p.Ordinal = series, ordinal
	return p, first && second
}

// ordinalOf parses a number in the form that String writes: not 01 and not +1.
func ordinalOf(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// namespace returns the namespace of the group.
func (p Placeholder) namespace() string {
	_, key := splitID(p.Group)
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}
