package machine

import "context"

// ensurePorts makes the server's ports, which must be there before it.
func (r *Reconciler) ensurePorts(ctx context.Context, p *pass) (bool, error) {
	if err := p.instance.EnsurePorts(ctx); err != nil {
		return false, r.failsInCloud(ctx, p, err)
	}
	p.facts.ports = true
	return true, nil
}
