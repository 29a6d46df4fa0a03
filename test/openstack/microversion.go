package openstack

import (
	"fmt"
	"strconv"
	"strings"
)

// microversion is a Nova API version; the zero value means that none applies.
type microversion struct{ major, minor int }

func (v microversion) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v microversion) atLeast(major, minor int) bool {
	return v.major > major || (v.major == major && v.minor >= minor)
}

func parseMicroversion(s string) (microversion, bool) {
	major, minor, found := strings.Cut(s, ".")
	if !found {
		return microversion{}, false
	}
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return microversion{a, b}, errA == nil && errB == nil
}

var oldest = microversion{2, 1}
