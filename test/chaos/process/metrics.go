package process

import (
	"fmt"
	"slices"
	"strings"
)

// waiting are the metrics that are zero, or have no series, unless drover holds something back.
var waiting = []string{
	"drover_openstack_held_servers", "drover_openstack_stuck_deletions", "drover_openstack_quotas_exhausted", "drover_health_held_machines",
	"drover_frozen", "drover_frozen_api", "drover_orphans", "drover_orphans_aborted",
}

// Waits returns the metrics that show that the process holds something back, with their values.
func (p *Process) Waits() (shown []string, err error) {
	families, err := p.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if v := m.GetGauge().GetValue(); v != 0 && slices.Contains(waiting, f.GetName()) {
				shown = append(shown, fmt.Sprintf("%s%s=%v", f.GetName(), strings.Join(strings.Fields(fmt.Sprint(m.GetLabel())), " "), v))
			}
		}
	}
	return shown, nil
}
