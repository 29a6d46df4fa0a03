package catalog

import (
	"regexp"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var flavorKind = kind{
	name: "flavor", notFound: fault.CodeFlavorNotFound, service: client.Compute, version: client.VersionFlavors, path: "flavors/detail", field: "flavors",
	unfiltered: true,
}

// Flavor is a flavor of Nova, with RAM in MiB and Disk in GiB.
type Flavor struct {
	resource
	VCPUs      int               `json:"vcpus"`
	RAM        int               `json:"ram"`
	Disk       int               `json:"disk"`
	ExtraSpecs map[string]string `json:"extra_specs"`
}

// localName matches the names of flavors that have a local disk, for clouds that set no extra spec for local disks.
var localName = regexp.MustCompile(`^l\d+\.`)

// isLocal reports whether the flavor's disk is on the host. If the flavor has an extra spec whose name ends with storage, its
// value must be local; otherwise the flavor's name must match localName.
func (f *Flavor) isLocal() bool {
	if f.Disk == 0 {
		return false
	}
	for key, text := range f.ExtraSpecs {
		if strings.HasSuffix(strings.ToLower(key), "storage") {
			return strings.EqualFold(text, "local")
		}
	}
	return localName.MatchString(f.Name)
}
