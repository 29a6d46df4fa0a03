package model

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// shortage returns the error to show for a Machine without a server while a back-off keeps it from requesting one, and when the
// back-off began. It is the error of the group's last attempt. The Machine still shows the error after the back-off has ended,
// until the next attempt clears or renews it (CA-C49, decision 0030). A Machine that was created after the end of the back-off
// has not waited, and shows no error before its own attempt.
func (g *Group) shortage(m *membership.Member) (*InstanceError, time.Time) {
	if len(g.Owner.Backoffs) == 0 || m.Facts.HasServer() {
		return nil, time.Time{}
	}
	var last *v1alpha1.GroupBackoff
	for i := range g.Owner.Backoffs {
		b := &g.Owner.Backoffs[i]
		if backoff.WaitOf(b) == 0 || !m.Machine.CreationTimestamp.Before(&b.Until) || !concerns(b, m) {
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
	return &InstanceError{Code: last.Code, Message: fault.Short(last.MessageFor(m.Machine.Name)), OutOfResources: policy.OutOfResources},
		last.Until.Add(-backoff.WaitOf(last))
}

// concerns reports whether a Machine may request the placement that the back-off is for. A Machine with an unknown placement
// may request any.
func concerns(b *v1alpha1.GroupBackoff, m *membership.Member) bool {
	p, known := m.Placement()
	return !known || alike(b.Flavor, p.Flavor) && alike(b.Zone, p.Zone)
}

// alike reports whether two values may be equal. An empty value may equal any other.
func alike(short, value string) bool { return short == "" || value == "" || short == value }
