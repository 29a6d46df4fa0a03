package provider

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Scheme is the prefix of OpenStack's provider IDs.
const Scheme = "openstack://"

// ID is a parsed provider ID.
type ID struct {
	// Region is the region as written; empty when the provider ID has none.
	Region string
	// Server is the server's UUID in lower case.
	Server string
}

// String returns the provider ID in the form openstack://REGION/UUID, or openstack:///UUID without a region.
func (id ID) String() string { return Scheme + id.Region + "/" + id.Server }

// ParseID parses a provider ID. The error lists the valid forms.
func ParseID(text string) (ID, error) {
	id, ok := parse(text)
	if !ok {
		return ID{}, fmt.Errorf("provider ID %.100q is not of the form openstack:///UUID or openstack://REGION/UUID", text)
	}
	return id, nil
}

// ServerIDOf returns the lower-case UUID of the server in a provider ID; empty when text is not a provider ID of OpenStack.
func ServerIDOf(text string) string {
	id, _ := parse(text)
	return id.Server
}

func parse(text string) (ID, bool) {
	if IsUUID(text) {
		return ID{Server: strings.ToLower(text)}, true
	}
	if len(text) < len(Scheme) || !strings.EqualFold(text[:len(Scheme)], Scheme) {
		return ID{}, false
	}
	region, server, found := strings.Cut(text[len(Scheme):], "/")
	if !found || !IsUUID(server) {
		return ID{}, false
	}
	return ID{Region: region, Server: strings.ToLower(server)}, true
}

// uuidLength is the length of a UUID with hyphens: 8-4-4-4-12 digits.
const uuidLength = 36

// IsUUID reports whether text is a UUID in the form with hyphens, in upper or lower case.
func IsUUID(text string) bool { return len(text) == uuidLength && uuid.Validate(text) == nil }
