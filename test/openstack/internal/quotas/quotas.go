// Package quotas holds the quota of each project. The services know its use.
package quotas

// None as a quota: not a single one.
const None = -1

// Quota is what a project may have of each kind. 0: as much as it likes; None: nothing.
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

// Shown is how the APIs write a quota: -1 for no limit.
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

// Beyond reports whether so many are too many.
func Beyond(quota, wanted int) bool { return Shown(quota) >= 0 && wanted > Shown(quota) }

// Quotas hold what each project may have.
type Quotas struct {
	// all is for projects without a quota of their own.
	all Quota
	own map[string]Quota
}

// Set changes what one project may have, by its ID; "" stands for all that have none of their own.
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

// Of returns what a project may have.
func (q *Quotas) Of(project string) Quota {
	if own, found := q.own[project]; found {
		return own
	}
	return q.all
}

// New returns quotas with all as the quota of each project.
func New(all Quota) *Quotas { return &Quotas{all: all} }
