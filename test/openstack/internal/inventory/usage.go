package inventory

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/test/openstack/internal/quotas"
)

// usage is how much a project uses of the resources that Nova counts.
type usage struct{ instances, cores, ram int }

// OverComputeQuota returns Nova's error text when the given number of servers of the flavor would exceed the quota of
// instances, cores or RAM; empty when they would not.
func (svc *Service) OverComputeQuota(project string, f *Flavor, count int) string {
	quota, used := svc.quotas.Of(project), svc.usage[project]
	if used == nil {
		used = &usage{}
	}
	var names, wanted, have, allowed []string
	var over []quotas.Over
	for _, r := range []struct {
		name, unified     string
		quota, used, more int
	}{
		{"cores", "class:VCPU", quota.Cores, used.cores, count * f.VCPUs},
		{"instances", "servers", quota.Instances, used.instances, count},
		{"ram", "class:MEMORY_MB", quota.RAM, used.ram, count * f.RAM},
	} {
		if !quotas.Beyond(r.quota, r.used+r.more) {
			continue
		}
		over = append(over, quotas.Over{Resource: r.unified, Limit: r.quota, Used: r.used, More: r.more})
		names = append(names, r.name)
		wanted = append(wanted, fmt.Sprint(r.more))
		have = append(have, fmt.Sprint(r.used))
		allowed = append(allowed, fmt.Sprint(quotas.Shown(r.quota)))
	}
	if len(names) == 0 {
		return ""
	}
	if svc.quotas.Unified {
		return quotas.OverLimit(project, over...)
	}
	all := strings.Join(names, ", ")
	return fmt.Sprintf("Quota exceeded for %s: Requested %s, but already used %s of %s %s",
		all, strings.Join(wanted, ", "), strings.Join(have, ", "), strings.Join(allowed, ", "), all)
}

// Count adds a server of the flavor to the project's usage when sign is 1, and subtracts it when sign is -1.
func (svc *Service) Count(project string, f *Flavor, sign int) {
	if svc.usage == nil {
		svc.usage = map[string]*usage{}
	}
	u := svc.usage[project]
	if u == nil {
		u = &usage{}
		svc.usage[project] = u
	}
	u.instances += sign
	u.cores += sign * f.VCPUs
	u.ram += sign * f.RAM
}
