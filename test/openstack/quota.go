package openstack

import (
	"fmt"
	"net/http"
	"strings"
)

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

// SetQuota changes what one project (name or ID) may have; "" stands for all that have none of their own.
func (c *Cloud) SetQuota(project string, q Quota) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if project == "" {
		c.cfg.Quota = q
		return
	}
	if c.compute.quotas == nil {
		c.compute.quotas = map[string]Quota{}
	}
	c.compute.quotas[c.mustProject(project).ID] = q
}

func (c *Cloud) quotaOf(project string) Quota {
	if q, own := c.compute.quotas[project]; own {
		return q
	}
	return c.cfg.Quota
}

// shown is how the APIs write a quota: -1 for no limit.
func shown(quota int) int {
	switch quota {
	case 0:
		return -1
	case None:
		return 0
	default:
		return quota
	}
}

// beyond says whether so many are too many.
func beyond(quota, wanted int) bool { return shown(quota) >= 0 && wanted > shown(quota) }

// overQuota is Neutron's answer.
func overQuota(kind string) reply {
	return neutronError(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['%s'].", kind)
}

// usage is what a project has of what Nova counts.
type usage struct{ instances, cores, ram int }

// overComputeQuota says in Nova's words which of instances, cores and ram so many servers of that flavor exceed; empty
// when they fit.
func (c *Cloud) overComputeQuota(project string, f *Flavor, count int) string {
	quota, used := c.quotaOf(project), c.compute.usage[project]
	if used == nil {
		used = &usage{}
	}
	var names, wanted, have, allowed []string
	for _, r := range []struct {
		name              string
		quota, used, more int
	}{
		{"cores", quota.Cores, used.cores, count * f.VCPUs},
		{"instances", quota.Instances, used.instances, count},
		{"ram", quota.RAM, used.ram, count * f.RAM},
	} {
		if !beyond(r.quota, r.used+r.more) {
			continue
		}
		names = append(names, r.name)
		wanted = append(wanted, fmt.Sprint(r.more))
		have = append(have, fmt.Sprint(r.used))
		allowed = append(allowed, fmt.Sprint(shown(r.quota)))
	}
	if len(names) == 0 {
		return ""
	}
	all := strings.Join(names, ", ")
	return fmt.Sprintf("Quota exceeded for %s: Requested %s, but already used %s of %s %s",
		all, strings.Join(wanted, ", "), strings.Join(have, ", "), strings.Join(allowed, ", "), all)
}

func (c *Cloud) count(s *server, sign int) {
	if c.compute.usage == nil {
		c.compute.usage = map[string]*usage{}
	}
	u := c.compute.usage[s.project]
	if u == nil {
		u = &usage{}
		c.compute.usage[s.project] = u
	}
	u.instances += sign
	u.cores += sign * s.flavor.VCPUs
	u.ram += sign * s.flavor.RAM
}
