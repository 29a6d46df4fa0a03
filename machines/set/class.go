package set

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// classIndex finds deployments, sets and Machines by the class that they name, as namespace/name.
	classIndex = "machineclass"
	// secretAgain is when a Secret that a class in use names and that is not there, or may not be written, is looked for
	// again.
	secretAgain = time.Minute
)

// classes keeps MachineClasses and the Secrets that they name from vanishing while a deployment, a set or a Machine uses
// the class (MCM-5): a finalizer stands on them until the last user is gone. Old sets are users too, since a rollback
// needs their class.
type classes struct {
	*Reconciler
}

// Reconcile puts the finalizers of one class, or takes them off.
func (c classes) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	class := &v1alpha1.MachineClass{}
	if err := c.client.Get(ctx, req.NamespacedName, class); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	used, err := c.used(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	held := slices.Contains(class.Finalizers, v1alpha1.FinalizerInUse)
	switch {
	case used && !held && !class.DeletionTimestamp.IsZero():
		// No finalizer may be added any more; the users wait for a class of that name.
		return ctrl.Result{}, nil
	case used:
		// The class first: as long as it is there, its Secrets are found.
		if err := c.finalize(ctx, class, true); err != nil {
			return ctrl.Result{}, err
		}
		return c.holdSecrets(ctx, class)
	case held:
		if err := c.releaseSecrets(ctx, class); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, c.finalize(ctx, class, false)
	}
	return ctrl.Result{}, nil
}

// used says that something names the class.
func (c classes) used(ctx context.Context, class types.NamespacedName) (bool, error) {
	for _, list := range []client.ObjectList{&v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}, &v1alpha1.MachineList{}} {
		if err := c.client.List(ctx, list, client.MatchingFields{classIndex: class.String()}, client.UnsafeDisableDeepCopy, client.Limit(1)); err != nil {
			return false, fmt.Errorf("listing what uses class %s: %w", class, err)
		}
		if countOf(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

func countOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *v1alpha1.MachineDeploymentList:
		return len(l.Items)
	case *v1alpha1.MachineSetList:
		return len(l.Items)
	case *v1alpha1.MachineList:
		return len(l.Items)
	}
	return 0
}

// usableSecrets returns the Secrets that a class names and may use.
func (c classes) usableSecrets(class *v1alpha1.MachineClass) []types.NamespacedName {
	return slices.DeleteFunc(secretsOf(class), func(key types.NamespacedName) bool { return !c.mayUse(class.Namespace, key.Namespace) })
}

// holdSecrets puts the finalizer on the Secrets that a class may use. The Machines that need a Secret report that it is missing,
// or in a namespace where drover may not write; here it is only looked for again.
func (c classes) holdSecrets(ctx context.Context, class *v1alpha1.MachineClass) (ctrl.Result, error) {
	var result ctrl.Result
	for _, key := range c.usableSecrets(class) {
		secret := &corev1.Secret{}
		err := c.live.Get(ctx, key, secret)
		if err == nil && secret.DeletionTimestamp.IsZero() {
			err = c.finalize(ctx, secret, true)
		}
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			ctrl.LoggerFrom(ctx).V(1).Info("a Secret of a class in use cannot be held", "secret", key.String(), "error", err.Error())
			result.RequeueAfter = secretAgain
		case err != nil:
			return result, fmt.Errorf("holding Secret %s of class %s: %w", key, class.Name, err)
		}
	}
	return result, nil
}

// releaseSecrets removes the finalizer from the Secrets that no other class in use names. Earlier versions also held Secrets that
// the class may not use, so those are released too.
func (c classes) releaseSecrets(ctx context.Context, class *v1alpha1.MachineClass) error {
	var all v1alpha1.MachineClassList
	if err := c.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing classes: %w", err)
	}
	needed := map[types.NamespacedName]bool{}
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID == class.UID || !slices.Contains(other.Finalizers, v1alpha1.FinalizerInUse) {
			continue
		}
		for _, key := range c.usableSecrets(other) {
			needed[key] = true
		}
	}
	var errs []error
	for _, key := range secretsOf(class) {
		if needed[key] {
			continue
		}
		secret := &corev1.Secret{}
		err := c.live.Get(ctx, key, secret)
		if err == nil {
			err = c.finalize(ctx, secret, false)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			errs = append(errs, fmt.Errorf("releasing Secret %s of class %s: %w", key, class.Name, err))
		}
	}
	return errors.Join(errs...)
}

// finalize puts the finalizer on an object or takes it off, and leaves all others alone.
func (c classes) finalize(ctx context.Context, o client.Object, hold bool) error {
	finalizers := o.GetFinalizers()
	if slices.Contains(finalizers, v1alpha1.FinalizerInUse) == hold {
		return nil
	}
	next := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == v1alpha1.FinalizerInUse })
	if hold {
		next = append(next, v1alpha1.FinalizerInUse)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "finalizers": next,
	}})
	if err != nil {
		return fmt.Errorf("encoding the finalizers: %w", err)
	}
	err = c.client.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager))
	if err != nil {
		return fmt.Errorf("writing the finalizer %s: %w", v1alpha1.FinalizerInUse, err)
	}
	ctrl.LoggerFrom(ctx).Info("a class is in use, or no more", "object", o.GetName(), "held", hold)
	return nil
}
