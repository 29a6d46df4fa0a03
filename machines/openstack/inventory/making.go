package inventory

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// BeginMaking keeps the ports and floating IPs of a Machine from being released until end is called: the caller makes something for
// the Machine, and calls end once the answer is taken in. The error is Transient while one of them is being released.
func (p *Project) BeginMaking(machine types.UID) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.known.BeginMaking(machine); err != nil {
		return nil, err
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.known.EndMaking(machine)
	}, nil
}

// MayMake returns nil when what has that tag may be made: no earlier create of it is in doubt, and no other server has the port that a
// server would get. Otherwise the error is Transient. A create that is settled by now is not in doubt any more.
func (p *Project) MayMake(tag OwnerTag) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.MayMake(tag, p.clock.Now())
}

// Attempted notes that a create failed. When err leaves open whether it worked, the create is in doubt until a list shows what it
// made or it is settled, and the ports that a server was ordered on are not used for another one.
func (p *Project) Attempted(tag OwnerTag, err error) {
	if !client.UnknownOutcome(err) {
		return
	}
	p.mu.Lock()
	p.known.Attempted(tag, p.clock.Now())
	p.mu.Unlock()
	p.Kick()
}

// HasAttempt reports whether an earlier create of what has that tag is in doubt.
func (p *Project) HasAttempt(tag OwnerTag) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Creates.Has(tag)
}

// OpenAttempts returns the tags of what creates of the Machine that are in doubt may have made.
func (p *Project) OpenAttempts(machine types.UID) []OwnerTag {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Creates.Of(machine)
}

// ReserveQuota reserves room for what the Machine still needs. The error is the refusal that another Machine has met, of class
// Quota.
func (p *Project) ReserveQuota(machine types.UID, want Amounts) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Quota.Reserve(machine, want, p.clock.Now())
}

// UseQuota notes that a part of what a Machine has reserved was made.
func (p *Project) UseQuota(machine types.UID, part Amounts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Quota.Use(machine, part)
}

// QuotaRefused notes the error of a create that wanted this much. Only an error of class Quota counts.
func (p *Project) QuotaRefused(machine types.UID, err error, want Amounts) {
	e := fault.Of(err)
	if e.Class != fault.Quota {
		return
	}
	p.mu.Lock()
	p.known.Quota.Refused(machine, e, want, p.clock.Now())
	p.mu.Unlock()
	p.Kick()
}
