package classprotection

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

const (
	// classIndex finds deployments, sets and Machines by the class that they use, as namespace/name.
	classIndex = "machineclass"
	// fieldManager is the field manager of the finalizers. The controller of sets has the same field manager, because in earlier releases that
	// controller wrote the finalizers.
	fieldManager = "drover-machineset"
)

// Options configure the controller of the finalizers on MachineClasses.
type Options struct {
	// Control is the cluster that holds the classes and the objects that use them.
	Control cluster.Cluster
	// AllowedNamespaces lists the namespaces whose MachineClasses may be used by objects of other namespaces.
	AllowedNamespaces []string
}

// Reconciler adds the finalizer to classes in use, and removes it from all other classes.
type Reconciler struct {
	writer ownership.Writer
	client client.Client
	cache  cache.Cache
	users  users
}

// New returns the controller.
func New(o Options) *Reconciler {
	c := o.Control.GetClient()
	return &Reconciler{
		writer: ownership.Writer{Client: c, FieldManager: fieldManager}, client: c, cache: o.Control.GetCache(),
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

// Reconcile adds the finalizer to a class in use, and removes it from a class without users.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	class := &v1alpha1.MachineClass{}
	if err := r.client.Get(ctx, req.NamespacedName, class); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	used, err := r.used(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if used && !class.DeletionTimestamp.IsZero() {
		// The API server refuses to add a finalizer to a class that is being deleted. The users of a class without the finalizer wait for a
		// new class of that name.
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.finalize(ctx, class, used)
}

// used reports whether an object uses the class.
func (r *Reconciler) used(ctx context.Context, class types.NamespacedName) (bool, error) {
	for _, list := range []client.ObjectList{&v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}, &v1alpha1.MachineList{}} {
		if err := r.client.List(ctx, list, client.MatchingFields{classIndex: class.String()}, client.UnsafeDisableDeepCopy, client.Limit(1)); err != nil {
			return false, fmt.Errorf("listing the users of class %s: %w", class, err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// finalize adds the finalizer to a class or removes it, and keeps all other finalizers.
func (r *Reconciler) finalize(ctx context.Context, class *v1alpha1.MachineClass, hold bool) error {
	change := controllerutil.RemoveFinalizer
	if hold {
		change = controllerutil.AddFinalizer
	}
	if class = class.DeepCopy(); !change(class, v1alpha1.FinalizerInUse) {
		return nil
	}
	metadata := ownership.Metadata(class)
	metadata["finalizers"] = class.Finalizers
	if err := r.writer.Merge(ctx, class, map[string]any{"metadata": metadata}); err != nil {
		return fmt.Errorf("writing the finalizer %s: %w", v1alpha1.FinalizerInUse, err)
	}
	ctrl.LoggerFrom(ctx).Info("Changed the finalizer of a MachineClass", "class", klog.KObj(class), "inUse", hold)
	return nil
}
