package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/fault"
)

// awaitNode keeps the join token good while the server boots, and says what is waited for.
func (r *Reconciler) awaitNode(ctx context.Context, p *pass) (bool, error) {
	p.detail = p.facts.taken
	if p.last.reason == reasonWaitingForNode {
		r.watchConsole(ctx, p)
		p.detail = awaited(p)
	}
	// Looked at twice in a token's half life, so that it never runs out between two looks.
	p.soonest(bootstrap.TokenLife / 4)
	if p.timeouts.join > 0 {
		p.soonest(p.facts.cloud.Server.Created.Add(p.timeouts.join).Sub(r.Clock.Now()))
	}
	return false, r.Bootstrap.Tokens.Prolong(ctx, p.m)
}

// awaited describes what a Machine without a node waits for: since when, until when, where to look, and the failure that
// the server's console names, if one was seen there.
func awaited(p *pass) string {
	server, name := p.facts.cloud.Server, p.m.ServerName()
	until := "without a deadline"
	if p.timeouts.join > 0 {
		until = "until " + server.Created.Add(p.timeouts.join).UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("waiting for node %s to register since its server %s was made at %s, %s; look at the console of the server and at the CertificateSigningRequests of system:node:%s",
		name, server.ID, server.Created.UTC().Format(time.RFC3339), until, name)
	if c := conditionOf(p.m, v1alpha1.ConditionConsole); c.Status == corev1.ConditionTrue && strings.HasPrefix(c.Message, consoleIntro(server)) {
		if line := failureIn(strings.TrimPrefix(c.Message, consoleIntro(server))); line != "" {
			text += "; the console says: " + fault.Line(line)
		}
	}
	return text
}

// joinNode takes the Node as the Machine's and ends its token. A Node that was deleted and has registered anew is taken
// again.
func (r *Reconciler) joinNode(ctx context.Context, p *pass) (bool, error) {
	if !p.facts.joined {
		if err := r.Bootstrap.Tokens.Delete(ctx, p.m); err != nil {
			return false, err
		}
		if err := r.settlesJoin(ctx, p, true); err != nil {
			return false, err
		}
	}
	r.clearConsole(p)
	node := p.facts.node
	p.m.Status.NodeRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	if marks := p.m.Status.NodeMarks; marks != nil && p.facts.registeredAnew {
		marks.Started = false
	}
	p.facts.joined, p.facts.registeredAnew = true, false
	ctrl.LoggerFrom(ctx).Info("Node joined", "node", node.Name)
	return true, nil
}
