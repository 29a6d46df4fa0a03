package v1alpha1

import "strings"

// The names of sets and Machines cannot change, so they show which object a set or Machine was made for even after it has lost its labels
// and its owner.
const (
	// maxSetBase leaves room for a dash and the ten characters of a hash in the 57 characters that the names of a set's Machines allow.
	maxSetBase = 46
	// maxMachineBase leaves room for a dash and five characters in the 63 characters of a host name.
	maxMachineBase = 57
	// leastHash is the least length of a suffix that counts as a hash. Only 1 hash in 40 000 is shorter.
	leastHash = 6
	// randomLength is the number of characters that the API server generates for a name.
	randomLength = 5
)

// SetBase returns the first part of the names of a deployment's sets. A dash and the hash of a template follow it.
func SetBase(deployment string) string { return nameBase(deployment, maxSetBase) }

// MachineBase returns the first part of the names of a set's Machines. A dash and five characters follow it.
func MachineBase(set string) string { return nameBase(set, maxMachineBase) }

func nameBase(owner string, length int) string {
	return strings.TrimRight(owner[:min(len(owner), length)], "-.")
}

// BaseOf returns the name of a set or Machine without its last dash and what follows it.
func BaseOf(name string) string {
	base, _ := cutSuffix(name)
	return base
}

func cutSuffix(name string) (base, suffix string) {
	i := strings.LastIndexByte(name, '-')
	return name[:max(i, 0)], name[i+1:]
}

// IsSetNameOf reports whether drover and machine-controller give a set of the deployment such a name. machine-controller does not shorten
// the deployment's name.
func IsSetNameOf(deployment, name string) bool {
	base := BaseOf(name)
	return base == SetBase(deployment) || base == deployment
}

// IsMachineNameOf reports whether drover and machine-controller give a Machine of the set such a name. machine-controller writes no dash
// after the first 58 characters of a longer name.
func IsMachineNameOf(set, name string) bool {
	return BaseOf(name) == MachineBase(set) || len(set) > maxMachineBase && strings.HasPrefix(name, set[:maxMachineBase+1])
}

// EndsWithHash reports whether the last part of a set's name can be the hash of a template. Unlike [IsSetNameOf] this is false for most
// names that a person chooses, such as nodes-2.
func EndsWithHash(name string) bool {
	_, suffix := cutSuffix(name)
	return len(suffix) >= leastHash && isRandom(suffix)
}

// EndsWithRandom reports whether a name ends with a dash and five characters, as the API server generates them for Machines.
func EndsWithRandom(name string) bool {
	_, suffix := cutSuffix(name)
	return len(suffix) == randomLength && isRandom(suffix)
}

// isRandom reports whether a text has only characters that the API server uses in generated names. Hashes of templates have the same.
func isRandom(text string) bool { return strings.Trim(text, "bcdfghjklmnpqrstvwxz2456789") == "" }
