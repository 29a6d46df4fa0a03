package inventory

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Holds stores the state of the mass-deletion guards for the next leader.
type Holds interface {
	// Load returns the stored state for a project in a region; zero when none is stored.
	Load(ctx context.Context, of HoldsKey) (Held, error)
	// Store replaces the stored state for a project in a region.
	Store(ctx context.Context, of HoldsKey, h Held) error
}

// HoldsKey identifies a project in a region. Endpoint is the URL of its Keystone, because any Keystone can claim to have a
// project with the same ID.
type HoldsKey struct{ Endpoint, Project, Region string }

func (p *Project) holdsKey() HoldsKey { return HoldsKey{p.endpoint, p.site.Project, p.site.Region} }

// loadHolds reads the state that the previous leader stored, unless it has been read already.
func (p *Project) loadHolds(ctx context.Context) error {
	p.mu.Lock()
	loaded := p.known.Guard.IsLoaded()
	p.mu.Unlock()
	if loaded {
		return nil
	}
	var h Held
	if p.holds != nil {
		var err error
		if h, err = p.holds.Load(ctx, p.holdsKey()); err != nil {
			return fmt.Errorf("reading what the mass-deletion guard of %s holds: %w", p.site, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Guard.Load(h)
	return nil
}

// storeHolds stores the state of the mass-deletion guard when it has changed. It returns the servers whose loss the guard accepts
// from now on. A failed write is repeated in the next round.
func (p *Project) storeHolds(ctx context.Context) (believed []string) {
	p.mu.Lock()
	h, dirty := p.known.Guard.ToStore()
	p.mu.Unlock()
	if !dirty {
		return nil
	}
	if p.holds != nil {
		if err := p.holds.Store(ctx, p.holdsKey(), h); err != nil {
			log.FromContext(ctx).Info("Storing the state of the mass-deletion guard failed; no further server counts as lost yet", "error", err.Error())
			p.Kick()
			return nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Guard.Stored(h)
}

// acceptLosses looks for an operator's confirmation while the guard holds servers, and accepts the losses that were confirmed. It
// logs the confirmation, and reports whether there is one.
func (p *Project) acceptLosses(ctx context.Context) bool {
	p.mu.Lock()
	reason := p.known.Guard.Reason()
	p.mu.Unlock()
	if reason == "" {
		return false
	}
	confirmed, err := false, error(nil)
	if p.collect != nil {
		confirmed, err = p.collect(ctx)
	}
	if err != nil || !confirmed {
		log.FromContext(ctx).Info("Mass-deletion guard blocks the clean-up", "reason", reason)
		return false
	}
	p.mu.Lock()
	p.known.Guard.Accept(p.known.Servers)
	p.mu.Unlock()
	log.FromContext(ctx).Info("Accepting mass server deletion: confirmed by annotation", "reason", reason)
	return true
}
