package openstack

import (
	"strconv"
	"strings"
)

// Microversions of compute, one row per call that needs more than the base version 2.1. What is lost below: the call.
const (
	// versionFlavors: the list of flavors brings their extra specs (Rocky).
	versionFlavors = "2.61"
	// versionTags: a server may be created with Nova tags (Pike).
	versionTags = "2.52"
	// versionVolumeType: the boot volume may have a type (Stein).
	versionVolumeType = "2.67"
	// versionBase is sent as no version at all.
	versionBase = ""
)

// createVersion is the least version that can carry the request, raised by the spec's computeAPIVersion, never lowered.
func createVersion(s *Spec) string {
	version := versionBase
	if len(s.Tags) > 0 {
		version = higher(version, versionTags)
	}
	if s.RootDiskVolumeType != "" {
		version = higher(version, versionVolumeType)
	}
	return higher(version, s.ComputeAPIVersion)
}

// higher gives the later of two versions 2.x; empty is the lowest.
func higher(a, b string) string {
	if minor(b) > minor(a) {
		return b
	}
	return a
}

func minor(version string) int {
	_, after, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(after)
	if err != nil {
		return 0
	}
	return n
}
