package inventory

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// BeginMaking reserves the quota want for a Machine's missing resources, and protects its ports and floating IPs from being released
// until end is called. The caller creates a resource for the Machine, and calls end once it has recorded the answer. It returns
// Transient while a port or floating IP of the Machine is being released, or an earlier create of its server is in doubt, and Quota
// when there is not enough.
func (p *Project) BeginMaking(machine types.UID, want state.Amounts) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.known.BeginMaking(machine, want, p.clock.Now()); err != nil {
		return nil, err
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.known.EndMaking(machine)
	}, nil
}

// CloseCreate closes an earlier create of the resource with that tag if it counts as failed by now. It returns Transient while the create
// is in doubt or, for a server, while one of the Machine's ports is bound to an unknown server.
func (p *Project) CloseCreate(tag state.Tag) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.CloseCreate(tag, p.clock.Now())
}

// Attempted records that a create failed. When err does not show whether the resource was created, the create is in doubt until a
// list shows the resource or enough time has passed. A server create in doubt also makes the Machine's ports unusable for another
// server.
func (p *Project) Attempted(tag state.Tag, err error) {
	if !client.UnknownOutcome(err) {
		return
	}
	p.mu.Lock()
	p.known.Attempted(tag, p.clock.Now())
	p.mu.Unlock()
	p.Kick()
}

// HasAttempt reports whether an earlier create of the resource with that tag is in doubt.
func (p *Project) HasAttempt(tag state.Tag) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Creates.Has(tag)
}

// OpenAttempts returns the tags of the Machine's creates in doubt.
func (p *Project) OpenAttempts(machine types.UID) []state.Tag {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Creates.Of(machine)
}

// UseQuota records that some of a Machine's reserved quota is now used.
func (p *Project) UseQuota(machine types.UID, part state.Amounts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Quotas.Use(machine, part)
}

// QuotaRefused records the error of a create that needed the quota want. Errors of other classes than Quota are ignored.
func (p *Project) QuotaRefused(machine types.UID, err error, want state.Amounts) {
	e := fault.Of(err)
	if e.Class != fault.Quota {
		return
	}
	p.mu.Lock()
	p.known.Quotas.Refused(machine, e, want, p.clock.Now())
	p.mu.Unlock()
	p.Kick()
}
