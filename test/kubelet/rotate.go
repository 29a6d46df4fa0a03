package kubelet

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
)

// rotation keeps one certificate fresh. Only the node's own loop calls its methods; a request for a certificate is
// waited for aside, so that a node lives on while nobody approves it.
type rotation struct {
	own *certificate
	// answer gets what became of the request that is under way; nil: there is none.
	answer chan *certificate
	// notBefore is when the next try may be made.
	notBefore time.Time
}

// step takes an answer that has come, and asks when it is time. It gives the new certificate, if there is one, and how
// soon it is to be called again.
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

// ask gets one certificate; nil when there is none; the journal says why.
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

// use makes the node speak under a certificate.
func (n *node) use(c *certificate) error {
	client, err := n.s.clientFor(c)
	if err != nil {
		return err
	}
	n.client, n.identity.own = client, c
	return nil
}

// rotate keeps the node's certificates fresh: its own, and once it has addresses that of its server (nothing connects to
// it here; that it is granted matters). It gives how soon it is to be called again.
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
