package classprotection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/patch"
)

const (
	// classIndex finds deployments, sets and Machines by the class that they use, as namespace/name.
	classIndex = "machineclass"
	// secretAgain is the interval at which drover looks for a Secret that a class in use names, while the Secret is missing or drover
	// may not write it.
	secretAgain = time.Minute
	// fieldManager is the field manager of the finalizers. The controller of sets has the same field manager, because in earlier releases that
	// controller wrote the finalizers.
	fieldManager = "drover-machineset"
)

// Options configure the controller of the finalizers on MachineClasses and Secrets.
type Options struct {
	// Control is the cluster that holds the classes, their Secrets and the objects that use the classes.
	Control cluster.Cluster
	// AllowedNamespaces lists the namespaces whose MachineClasses and Secrets may be used by objects of other namespaces.
	AllowedNamespaces []string
}

// Reconciler adds the finalizer to classes in use, and removes it from all other classes.
type Reconciler struct {
	writer patch.Writer
	client client.Client
	// live reads from the API server itself, without a cache.
	live  client.Reader
	cache cache.Cache
	users users
}

// New returns the controller.
func New(o Options) *Reconciler {
	c := o.Control.GetClient()
	return &Reconciler{
		writer: patch.Writer{Client: c, FieldManager: fieldManager}, client: c, live: o.Control.GetAPIReader(), cache: o.Control.GetCache(),
		users: users{allowed: o.AllowedNamespaces},
	}
}

// SetupWithManager registers the controller with the manager. The controller runs when a class changes, or when an object uses another
// class than before.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for _, o := range []client.Object{&v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}, &v1alpha1.Machine{}} {
		if err := r.cache.IndexField(context.Background(), o, classIndex, r.users.classOf); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("machineclass").
		WatchesRawSource(source.Kind(r.cache, &v1alpha1.MachineClass{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.MachineClass]{})).
		WatchesRawSource(source.Kind(r.cache, &v1alpha1.MachineDeployment{}, events[*v1alpha1.MachineDeployment](r.users))).
		WatchesRawSource(source.Kind(r.cache, &v1alpha1.MachineSet{}, events[*v1alpha1.MachineSet](r.users))).
		WatchesRawSource(source.Kind(r.cache, &v1alpha1.Machine{}, events[*v1alpha1.Machine](r.users))).
		Complete(r)
}

// Reconcile adds the finalizers of one class and its Secrets, or removes them.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	class := &v1alpha1.MachineClass{}
	if err := r.client.Get(ctx, req.NamespacedName, class); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	used, err := r.used(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	held := slices.Contains(class.Finalizers, v1alpha1.FinalizerInUse)
	switch {
	case used && !held && !class.DeletionTimestamp.IsZero():
		// The API server refuses to add a finalizer to a class that is being deleted. The users of the class wait for a new class of
		// that name.
		return ctrl.Result{}, nil
	case used:
		// The class gets its finalizer first, because drover finds the Secrets only as long as the class exists.
		if err := r.finalize(ctx, class, true); err != nil {
			return ctrl.Result{}, err
		}
		return r.holdSecrets(ctx, class)
	case held:
		if err := r.releaseSecrets(ctx, class); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.finalize(ctx, class, false)
	}
	return ctrl.Result{}, nil
}

// used reports whether an object uses the class.
func (r *Reconciler) used(ctx context.Context, class types.NamespacedName) (bool, error) {
	for _, list := range []client.ObjectList{&v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}, &v1alpha1.MachineList{}} {
		if err := r.client.List(ctx, list, client.MatchingFields{classIndex: class.String()}, client.UnsafeDisableDeepCopy, client.Limit(1)); err != nil {
			return false, fmt.Errorf("listing the users of class %s: %w", class, err)
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
func (r *Reconciler) usableSecrets(class *v1alpha1.MachineClass) []types.NamespacedName {
	return slices.DeleteFunc(secretsOf(class), func(key types.NamespacedName) bool { return !r.users.mayUse(class.Namespace, key.Namespace) })
}

// holdSecrets adds the finalizer to the Secrets that a class may use. When a Secret is missing, or is in a namespace where drover may
// not write, drover looks for it again later. The Machines that need the Secret report the error.
func (r *Reconciler) holdSecrets(ctx context.Context, class *v1alpha1.MachineClass) (ctrl.Result, error) {
	var result ctrl.Result
	for _, key := range r.usableSecrets(class) {
		secret := &corev1.Secret{}
		err := r.live.Get(ctx, key, secret)
		if err == nil && secret.DeletionTimestamp.IsZero() {
			err = r.finalize(ctx, secret, true)
		}
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			ctrl.LoggerFrom(ctx).V(1).Info("Adding the finalizer to the Secret of a MachineClass in use failed", "secret", key.String(), "error", err.Error())
			result.RequeueAfter = secretAgain
		case err != nil:
			return result, fmt.Errorf("adding the finalizer to Secret %s of class %s: %w", key, class.Name, err)
		}
	}
	return result, nil
}

// releaseSecrets removes the finalizer from the Secrets that no other class in use names. It also does this for Secrets that the class may
// not use, because earlier versions protected those too. Whether another class is in use, its users show and not its finalizer: two classes
// that lose their last users at once would each leave a Secret of both to the other (F-66).
func (r *Reconciler) releaseSecrets(ctx context.Context, class *v1alpha1.MachineClass) error {
	var all v1alpha1.MachineClassList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing classes: %w", err)
	}
	needed := map[types.NamespacedName]bool{}
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID == class.UID {
			continue
		}
		if used, err := r.used(ctx, client.ObjectKeyFromObject(other)); err != nil {
			return err
		} else if !used {
			continue
		}
		for _, key := range r.usableSecrets(other) {
			needed[key] = true
		}
	}
	var errs []error
	for _, key := range secretsOf(class) {
		if needed[key] {
			continue
		}
		secret := &corev1.Secret{}
		err := r.live.Get(ctx, key, secret)
		if err == nil {
			err = r.finalize(ctx, secret, false)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			errs = append(errs, fmt.Errorf("removing the finalizer of Secret %s of class %s: %w", key, class.Name, err))
		}
	}
	return errors.Join(errs...)
}

// finalize adds the finalizer to an object or removes it, and keeps all other finalizers.
func (r *Reconciler) finalize(ctx context.Context, o client.Object, hold bool) error {
	finalizers := o.GetFinalizers()
	if slices.Contains(finalizers, v1alpha1.FinalizerInUse) == hold {
		return nil
	}
	next := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == v1alpha1.FinalizerInUse })
	if hold {
		next = append(next, v1alpha1.FinalizerInUse)
	}
	metadata := patch.Metadata(o)
	metadata["finalizers"] = next
	if err := r.writer.Merge(ctx, o.DeepCopyObject().(client.Object), map[string]any{"metadata": metadata}); err != nil {
		return fmt.Errorf("writing the finalizer %s: %w", v1alpha1.FinalizerInUse, err)
	}
	kind, message := "MachineClass", "Removed the finalizer "
	if _, ok := o.(*corev1.Secret); ok {
		kind = "Secret"
	}
	if hold {
		message = "Added the finalizer "
	}
	ctrl.LoggerFrom(ctx).Info(message+v1alpha1.FinalizerInUse, "kind", kind, "object", client.ObjectKeyFromObject(o).String())
	return nil
}
