package nodegroup

import (
	"encoding/json"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/fault"
)

// shortage is what the autoscaler is told at once of a Machine without a server whose flavor and zone are known to be
// short: it was never asked for, because the last one that was did not come (design: shortages belong to the group). With
// it comes when that was. It stays beyond the wait, until the next attempt changes it (CA-C49, decision 0030): a server
// ends the back-off, a failure renews it. A Machine that was made when the wait was over has waited for nothing, and shows
// nothing before it has asked.
func (s *Snapshot) shortage(g *group, m *member) (*InstanceError, time.Time) {
	if m.facts().HasServer() {
		return nil, time.Time{}
	}
	var last *v1alpha1.GroupBackoff
	for i := range g.owner.backoffs {
		b := &g.owner.backoffs[i]
		if backoff.WaitOf(b) == 0 || !m.machine.CreationTimestamp.Before(&b.Until) || !concerns(b, m.place()) {
			continue
		}
		if last == nil || last.Until.Before(&b.Until) {
			last = b
		}
	}
	if last == nil {
		return nil, time.Time{}
	}
	policy := fault.PolicyOf(fault.Class(last.Class))
	return &InstanceError{Code: last.Code, Message: fault.Short(last.MessageFor(m.machine.Name)), OutOfResources: policy.OutOfResources},
		last.Until.Add(-backoff.WaitOf(last))
}

// concerns tells whether a Machine would ask for what is short.
func concerns(b *v1alpha1.GroupBackoff, p place) bool {
	return p.unknown || alike(b.Flavor, p.flavor) && alike(b.Zone, p.zone)
}

// place is what a Machine's spec asks the cloud for.
type place struct {
	flavor, zone string
	// unknown: the spec stands in a class or cannot be read.
	unknown bool
}

func placeOf(m *v1alpha1.Machine) place {
	source, err := m.Spec.Provider()
	if err != nil || source.Value == nil {
		return place{unknown: true}
	}
	// The keys are read without regard to case, as everywhere. A value that stands in a Secret or ConfigMap is no text.
	var spec struct {
		CloudProviderSpec struct{ Flavor, AvailabilityZone any }
	}
	if json.Unmarshal(source.Value.Raw, &spec) != nil {
		return place{unknown: true}
	}
	var p place
	p.flavor, _ = spec.CloudProviderSpec.Flavor.(string)
	p.zone, _ = spec.CloudProviderSpec.AvailabilityZone.(string)
	return p
}

// alike tells whether a value may be the one that is short; one that is not given may be any.
func alike(short, value string) bool { return short == "" || value == "" || short == value }
