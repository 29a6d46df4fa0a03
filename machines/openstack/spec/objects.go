package spec

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// objects reads the API objects that the provider specs of one namespace refer to.
type objects struct {
	// reader may be nil: then no object can be read.
	reader ctrlclient.Reader
	// namespace is the Machine's namespace. References may point only into this namespace and into the allowed namespaces.
	namespace string
	allowed   []string
	// account is drover's ServiceAccount, as namespace:name, for errors.
	account string
}

// get reads an object. For an object that does not exist, the error names the field that refers to it.
func (o *objects) get(ctx context.Context, field string, key types.NamespacedName, into ctrlclient.Object) error {
	if o.reader == nil {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: %s cannot be read without a cluster", field, key)
	}
	err := o.reader.Get(ctx, key, into)
	what, isReference := kindOf(into)
	switch {
	case apierrors.IsNotFound(err):
		class, code := fault.Invalid, fault.CodeInvalidSpec
		if what == string(secretKind) {
			class, code = fault.Auth, fault.CodeCredentialsMissing
		}
		missing := fault.New(class, code, "%s: %s %s does not exist; create it", field, what, key)
		missing.Err = err
		return missing
	case apierrors.IsForbidden(err) && isReference:
		return fault.New(fault.Auth, fault.CodeReferenceForbidden,
			"%s: %s %s: drover may not read it (Forbidden): ClusterRole %s is not bound in namespace %s; bind it with: %s",
			field, what, key, v1alpha1.RoleReferences, key.Namespace, v1alpha1.BindReferences(o.account, key.Namespace))
	case err != nil:
		return fault.New(fault.Transient, fault.CodeUnknown, "%s: reading %s: %v", field, key, err)
	}
	return nil
}

// kindOf returns the kind of an object, and reports whether the RBAC role v1alpha1.RoleReferences allows drover to read it.
func kindOf(object ctrlclient.Object) (kind string, isReference bool) {
	switch object.(type) {
	case *corev1.Secret:
		return string(secretKind), true
	case *corev1.ConfigMap:
		return string(configMapKind), true
	case *v1alpha1.MachineClass:
		return "MachineClass", false
	case *v1alpha1.Cluster:
		return "Cluster", false
	}
	return "object", false
}

// mayRead returns an error for a namespace that is neither the Machine's nor allowed by the operator (MC-12).
func (o *objects) mayRead(field, namespace string) error {
	if namespace == o.namespace || slices.Contains(o.allowed, namespace) {
		return nil
	}
	return fault.New(fault.Invalid, fault.CodeInvalidSpec,
		"%s: refers to an object in namespace %s, which Machines of %s may not use; move the object to %s, or start drover with --secret-namespaces=%s and run: %s",
		field, namespace, o.namespace, o.namespace, namespace, v1alpha1.BindReferences(o.account, namespace))
}

// dereference returns the value of one key of a Secret or ConfigMap. When the key or the object does not exist, the error wraps a
// *missingReference.
func (o *objects) dereference(ctx context.Context, ref *reference) (string, error) {
	if err := o.mayRead(ref.String(), ref.Namespace); err != nil {
		return "", err
	}
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	var text string
	var ok bool
	if ref.Kind == secretKind {
		secret := &corev1.Secret{}
		if err := o.get(ctx, "key "+ref.Key, key, secret); err != nil {
			return "", missing(ref, err)
		}
		var data []byte
		data, ok = secret.Data[ref.Key]
		text = string(data)
	} else {
		config := &corev1.ConfigMap{}
		if err := o.get(ctx, "key "+ref.Key, key, config); err != nil {
			return "", missing(ref, err)
		}
		text, ok = config.Data[ref.Key]
	}
	if !ok {
		missing := fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: the key does not exist; add it", ref)
		missing.Err = &missingReference{ref: ref}
		return "", missing
	}
	return text, nil
}

// missing adds a missingReference to an error about an object that does not exist.
func missing(ref *reference, err error) error {
	if e := fault.Of(err); apierrors.IsNotFound(err) {
		e.Err = &missingReference{ref: ref, object: true}
	}
	return err
}
