package machine

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// addFinalizers is written before anything outside is made, so that nothing can be made and forgotten (MC-39).
func (r *Reconciler) addFinalizers(ctx context.Context, p *pass) (bool, error) {
	controllerutil.AddFinalizer(p.m, v1alpha1.FinalizerServer)
	controllerutil.AddFinalizer(p.m, v1alpha1.FinalizerNode)
	if err := r.persist(ctx, p); err != nil {
		return false, err
	}
	p.facts.finalizers = true
	return true, nil
}

// removeFinalizers lets the Machine go: nothing of it is left.
func (r *Reconciler) removeFinalizers(ctx context.Context, p *pass) (bool, error) {
	p.m.Finalizers = slices.DeleteFunc(p.m.Finalizers, func(name string) bool { return slices.Contains(ownFinalizers, name) })
	if err := r.persist(ctx, p); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	p.gone = true
	r.backoff.forget(p.m.UID)
	r.ledger.leave(p.m.UID)
	r.crew.Forget(p.m.UID)
	if p.left != "" {
		r.warn(p.m, p.leftReason, p.left)
	}
	return false, nil
}
