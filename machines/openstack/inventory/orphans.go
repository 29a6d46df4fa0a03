package inventory

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/massdeletion"
)

// OrphanAge is how long a tagged resource must have been known before it may count as without an owner.
const OrphanAge = 15 * time.Minute

// OrphanVerdict says what may be collected.
type OrphanVerdict struct {
	// Orphans have no Machine and are old enough, in the order of their IDs. They may be collected when a second pass
	// finds the same and ReportOnly is empty.
	Orphans []Resource
	// ReportOnly says why nothing is collected all the same; empty: it may be.
	ReportOnly string
}

// JudgeOrphans returns the tagged resources without an owner. An operator must confirm (told) when there are too many tagged
// servers without a Machine: more than max(3, 10 %) of all tagged servers, as after a restore with other UIDs. The
// caller decides what to do when the cluster ID is new.
func JudgeOrphans(tagged []Resource, living map[types.UID]bool, now time.Time, told bool) OrphanVerdict {
	var v OrphanVerdict
	servers, ownerless := 0, 0
	for _, r := range tagged {
		if r.Kind == string(ServerKind) {
			servers++
			if !living[r.Machine] {
				ownerless++
			}
		}
		if !living[r.Machine] && now.Sub(r.Since) >= OrphanAge {
			v.Orphans = append(v.Orphans, r)
		}
	}
	slices.SortFunc(v.Orphans, func(a, b Resource) int { return cmp.Compare(a.ID, b.ID) })
	if massdeletion.TooMany(ownerless, servers) && !told {
		v.ReportOnly = "too many marked servers have no Machine"
	}
	return v
}
