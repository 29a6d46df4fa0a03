package catalog

import (
	"context"
	"regexp"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var flavorKind = kind{name: "flavor", notFound: fault.CodeFlavorNotFound}

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

// flavor returns the flavor from the list of all flavors, which is cached for positiveTTL. When the cached list does not have the
// name, flavor requests the list again, because the flavor may be newer than the cached list.
func (c *Catalog) flavor(ctx context.Context, name string) (Flavor, error) {
	return lookup(c.cache, flavorKind.key(name), func() (Flavor, error) {
		began := c.cache.clock.Now()
		w := c.wanted(ctx, flavorKind, name)
		all, err := c.flavors(ctx)
		if err != nil {
			return Flavor{}, err
		}
		got, missing := pick(w, all)
		if missing == nil || !c.cache.dropOlder(allFlavors, began) {
			return got, missing
		}
		if all, err = c.flavors(ctx); err != nil {
			return Flavor{}, err
		}
		return pick(w, all)
	})
}

// allFlavors is the cache key of the list of all flavors.
const allFlavors = "flavors"

func (c *Catalog) flavors(ctx context.Context) ([]Flavor, error) {
	return lookup(c.cache, allFlavors, func() ([]Flavor, error) {
		return client.List[Flavor](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Compute, Doing: "listing flavors", Version: client.VersionFlavors}, Path: "flavors/detail", Field: "flavors",
		})
	})
}
