// Package quotas holds the quota of each project. The services count how much of it is used.
package quotas

import (
	"cmp"
	"fmt"
	"strings"
)

// None is the quota that allows no resource of a kind.
const None = -1

// Quota is how much of each kind of resource a project may have. 0 means no limit; None means that
// no resource is allowed.
type Quota struct {
	Instances, Cores int
	// RAM is in MiB.
	RAM                                int
	ServerGroups, ServerGroupMembers   int
	Ports, FloatingIPs                 int
	SecurityGroups, SecurityGroupRules int
	Volumes                            int
	// Gigabytes is the sum of the volumes' sizes.
	Gigabytes int
}

// Shown returns a quota as the APIs write it: -1 means no limit.
func Shown(quota int) int {
	switch quota {
	case 0:
		return -1
	case None:
		return 0
	default:
		return quota
	}
}

// Beyond reports whether the wanted amount exceeds the quota.
func Beyond(quota, wanted int) bool { return Shown(quota) >= 0 && wanted > Shown(quota) }

// Over is a resource whose limit a request exceeds. Limit is in the form of a field of Quota.
type Over struct {
	Resource          string
	Limit, Used, More int
}

// OverLimit returns the error text of Nova with unified limits. An empty project is one that Nova does not name.
func OverLimit(project string, all ...Over) string {
	texts := make([]string, len(all))
	for i, o := range all {
		texts[i] = fmt.Sprintf("Resource %s is over limit of %d due to current usage %d and delta %d", o.Resource, Shown(o.Limit), o.Used, o.More)
	}
	return fmt.Sprintf("Project %s is over a limit for [%s]", cmp.Or(project, "None"), strings.Join(texts, ", "))
}

// Quotas holds the quota of each project.
type Quotas struct {
	// Unified is true when Nova's limits are in Keystone (unified limits). Then the texts of its errors differ.
	Unified bool
	// all is the quota of projects without a quota of their own.
	all Quota
	own map[string]Quota
}

// Set changes the quota of the project with the ID. The ID "" stands for all projects without a
// quota of their own.
func (q *Quotas) Set(project string, to Quota) {
	if project == "" {
		q.all = to
		return
	}
	if q.own == nil {
		q.own = map[string]Quota{}
	}
	q.own[project] = to
}

// Of returns the quota of a project.
func (q *Quotas) Of(project string) Quota {
	if own, found := q.own[project]; found {
		return own
	}
	return q.all
}

// New returns Quotas in which each project has the given quota.
func New(all Quota) *Quotas { return &Quotas{all: all} }
