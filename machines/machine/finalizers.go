package machine

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// addFinalizers writes the finalizers before anything outside is made, so that nothing can be made and forgotten (MC-39). The
// same write records where it will be made, as far as that is known.
func (r *Reconciler) addFinalizers(ctx context.Context, p *pass) (bool, error) {
	controllerutil.AddFinalizer(p.m, v1alpha1.FinalizerServer)
	controllerutil.AddFinalizer(p.m, v1alpha1.FinalizerNode)
	if !p.facts.hadServer {
		p.place()
	}
	if err := r.persist(ctx, p); err != nil {
		return false, err
	}
	p.facts.finalizers = true
	return true, nil
}

// recordPlace writes where the Machine's resources will be made when that was not known with its finalizers, or when its
// credentials are for another project by now. Nothing is made before.
func (r *Reconciler) recordPlace(ctx context.Context, p *pass) (bool, error) {
	p.place()
	return true, r.persist(ctx, p)
}

// removeFinalizers lets the Machine go: nothing of it is left.
func (r *Reconciler) removeFinalizers(ctx context.Context, p *pass) (bool, error) {
	p.m.Finalizers = slices.DeleteFunc(p.m.Finalizers, func(name string) bool { return slices.Contains(ownFinalizers, name) })
	if err := r.persist(ctx, p); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	p.gone = true
	r.retries.Forget(p.m.UID)
	r.groups.Forget(p.m.UID)
	r.crew.Forget(p.m.UID)
	if p.left != "" {
		r.warn(p.m, p.leftReason, p.left)
	}
	return false, nil
}
