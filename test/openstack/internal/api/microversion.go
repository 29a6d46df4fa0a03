package api

import (
	"fmt"
	"strconv"
	"strings"
)

// Microversion is a Nova API version; the zero value means that none applies.
type Microversion struct{ Major, Minor int }

func (v Microversion) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (v Microversion) AtLeast(major, minor int) bool {
	return v.Major > major || (v.Major == major && v.Minor >= minor)
}

func ParseMicroversion(s string) (Microversion, bool) {
	major, minor, found := strings.Cut(s, ".")
	if !found {
		return Microversion{}, false
	}
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return Microversion{a, b}, errA == nil && errB == nil
}

var Oldest = Microversion{2, 1}
