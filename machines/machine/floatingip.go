package machine

import "context"

// ensureFloatingIP makes the floating IP, when the spec asks for one, on a port that is there already: so it never
// exists without belonging to something.
func (r *Reconciler) ensureFloatingIP(ctx context.Context, p *pass) (bool, error) {
	if err := p.instance.EnsureFloatingIP(ctx); err != nil {
		return false, r.failsInCloud(ctx, p, err)
	}
	p.facts.floatingIP = true
	return true, nil
}
