package openstack

import (
	"fmt"
	"strings"
	"unicode"
)

// mostClusterID is the maximum length of a cluster ID, in bytes: together with a Machine's UID it must fit into the 255 characters
// of a Neutron description.
const mostClusterID = 128

// CheckClusterID returns an error when id cannot be the cluster ID in owner tags: it is empty, is longer than 128 bytes, or
// contains white space or control characters.
func CheckClusterID(id string) error {
	if id == "" || len(id) > mostClusterID {
		return fmt.Errorf("cluster ID %q: must have 1 to %d bytes", id, mostClusterID)
	}
	if strings.ContainsFunc(id, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }) {
		return fmt.Errorf("cluster ID %q: must not contain white space or control characters", id)
	}
	return nil
}
