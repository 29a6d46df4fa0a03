package inventory

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Holds keeps what the mass-deletion guards hold, for the next leader.
type Holds interface {
	// Load returns what was stored last for a project in a region; zero when nothing was.
	Load(ctx context.Context, of HoldsKey) (Held, error)
	// Store replaces it.
	Store(ctx context.Context, of HoldsKey, h Held) error
}

// HoldsKey tells a project in a region from all others. The endpoint is the URL of its Keystone: a Keystone of an author's own
// may claim to have a project of any ID.
type HoldsKey struct{ Endpoint, Project, Region string }

func (p *Project) holdsKey() HoldsKey { return HoldsKey{p.endpoint, p.site.Project, p.site.Region} }

// loadHolds reads what a predecessor stored, once.
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

// storeHolds writes down what the mass-deletion guard keeps when that has changed, and returns the servers whose loss may be believed
// from now on. A failed write is repeated with the next poll.
func (p *Project) storeHolds(ctx context.Context) (believed []string) {
	p.mu.Lock()
	h, dirty := p.known.Guard.ToStore()
	p.mu.Unlock()
	if !dirty {
		return nil
	}
	if p.holds != nil {
		if err := p.holds.Store(ctx, p.holdsKey(), h); err != nil {
			log.FromContext(ctx).Info("Cannot store what the mass-deletion guard holds; new losses are not believed", "error", err.Error())
			p.Kick()
			return nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Guard.Stored(h)
}

// acceptLosses asks for an operator's confirmation when something is held, and logs it. It reports whether it was given.
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
		log.FromContext(ctx).Info("Nothing is cleaned up", "reason", reason)
		return false
	}
	p.mu.Lock()
	p.known.Guard.Accept(p.known.Servers)
	p.mu.Unlock()
	log.FromContext(ctx).Info("Accepting mass server deletion: confirmed by annotation", "reason", reason)
	return true
}
