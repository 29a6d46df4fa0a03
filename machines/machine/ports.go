package machine

import "context"

// ensurePorts makes the server's ports, which must be there before it.
func (r *Reconciler) ensurePorts(ctx context.Context, p *pass) (bool, error) {
	if err := p.instance.EnsurePorts(ctx); err != nil {
		r.fails(ctx, p, err)
		return false, nil
	}
	p.facts.ports = true
	return true, nil
}
