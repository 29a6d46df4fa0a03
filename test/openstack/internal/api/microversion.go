package api

import (
	"fmt"
	"strconv"
	"strings"
)

// Microversion is a microversion of Nova's API. The zero value is used for calls without a microversion.
type Microversion struct{ Major, Minor int }

// String returns the version as in headers, such as 2.93.
func (v Microversion) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// AtLeast reports whether the version is major.minor or later.
func (v Microversion) AtLeast(major, minor int) bool {
	return v.Major > major || (v.Major == major && v.Minor >= minor)
}

// ParseMicroversion parses a version such as 2.93. It returns false when s is not a version.
func ParseMicroversion(s string) (Microversion, bool) {
	major, minor, found := strings.Cut(s, ".")
	if !found {
		return Microversion{}, false
	}
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return Microversion{a, b}, errA == nil && errB == nil
}

// Oldest is the oldest version that Nova offers.
var Oldest = Microversion{2, 1}
