package kubelet

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
)

// rotation renews one certificate. Only the node's own loop calls its methods. A goroutine waits for a requested certificate, so
// that the node stays alive while the request is not approved.
type rotation struct {
	own *certificate
	// answer receives the result of the pending request; nil when no request is pending.
	answer chan *certificate
	// notBefore is the earliest time of the next request for a certificate.
	notBefore time.Time
}

// step receives the result of a pending request, and requests a certificate when that is due. It returns the new certificate, if
// there is one, and the time until step must be called again.
func (r *rotation) step(ctx context.Context, n *node, client kubernetes.Interface, want request) (*certificate, time.Duration) {
	now := n.o.Clock.Now()
	if r.answer != nil {
		select {
		case c := <-r.answer:
			r.answer = nil
			if c == nil {
				r.notBefore = now.Add(restartAfter)
				return nil, restartAfter
			}
			r.own = c
			return c, max(c.renew.Sub(now), 0)
		default:
			return nil, settleEvery
		}
	}
	if r.own != nil && r.own.renew.After(now) {
		return nil, r.own.renew.Sub(now)
	}
	if r.notBefore.After(now) {
		return nil, r.notBefore.Sub(now)
	}
	answer := make(chan *certificate, 1)
	r.answer = answer
	go func() { answer <- n.ask(ctx, client, want) }()
	return nil, settleEvery
}

// ask requests one certificate. It returns nil when that fails, and writes the reason to the journal.
func (n *node) ask(ctx context.Context, client kubernetes.Interface, want request) *certificate {
	certPEM, keyPEM, err := obtain(ctx, client, n.s.name, want)
	var c *certificate
	if err == nil {
		c, err = n.o.obtained(certPEM, keyPEM)
	}
	if err != nil && ctx.Err() == nil {
		n.o.printed(err.Error())
	}
	return c
}

// use makes the node's client use a certificate.
func (n *node) use(c *certificate) error {
	client, err := n.s.clientFor(c)
	if err != nil {
		return err
	}
	n.client, n.identity.own = client, c
	return nil
}

// rotate renews the node's client certificate, and its serving certificate once the node has addresses. (No program connects to
// the simulated kubelet; tests only check that the serving certificate is issued.) It returns the time until rotate must be
// called again.
func (n *node) rotate(ctx context.Context) time.Duration {
	c, wait := n.identity.step(ctx, n, n.client, clientRequest)
	if c != nil {
		if err := n.use(c); err != nil {
			n.o.printed(err.Error())
		} else {
			n.o.printed("client certificate is renewed")
		}
	}
	if !n.s.config.ServerTLSBootstrap || len(n.addresses) == 0 {
		return wait
	}
	first := n.server.own == nil
	c, soon := n.server.step(ctx, n, n.client, servingRequest(n.addresses))
	switch {
	case c != nil && first:
		n.o.printed("serving certificate is granted")
	case c != nil:
		n.o.printed("serving certificate is renewed")
	}
	return min(wait, soon)
}
