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

// contents are the keys of a Secret or ConfigMap, or the error of its read.
type contents struct {
	keys map[string]string
	err  error
}

// get reads an API object that the provider spec refers to. It returns an error for a namespace that is neither the Machine's nor allowed by
// the operator (MC-12).
func (s *Sources) get(ctx context.Context, kind string, key types.NamespacedName, into ctrlclient.Object) error {
	o, own := &s.reader.options, s.object.Namespace
	if key.Namespace != own && !slices.Contains(o.AllowedNamespaces, key.Namespace) {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec,
			"%s %s: refers to an object in namespace %s, which Machines of %s may not use; move the object to %s, or start drover with --secret-namespaces=%s and run: %s",
			kind, key, key.Namespace, own, own, key.Namespace, v1alpha1.BindReferences(o.ServiceAccount, key.Namespace))
	}
	if o.Reader == nil {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s cannot be read without a cluster", key)
	}
	err := o.Reader.Get(ctx, key, into)
	isSecret := kind == string(secretKind)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		missing := fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s %s does not exist; create it", kind, key)
		if isSecret {
			missing.Class, missing.Code = fault.Auth, fault.CodeCredentialsMissing
		}
		missing.Err = err
		return missing
	case apierrors.IsForbidden(err) && (isSecret || kind == string(configMapKind)):
		return fault.New(fault.Auth, fault.CodeReferenceForbidden,
			"%s %s: drover may not read it (Forbidden): ClusterRole %s is not bound in namespace %s; bind it with: %s",
			kind, key, v1alpha1.RoleReferences, key.Namespace, v1alpha1.BindReferences(o.ServiceAccount, key.Namespace))
	}
	return fault.New(fault.Transient, fault.CodeUnknown, "reading %s: %v", key, err)
}

// contents returns the keys of a Secret or ConfigMap. It reads each only once.
func (s *Sources) contents(ctx context.Context, of reference) (map[string]string, error) {
	of.Key = ""
	got, ok := s.known[of]
	if ok {
		return got.keys, got.err
	}
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	if of.Kind == secretKind {
		secret := &corev1.Secret{}
		got.err, got.keys = s.get(ctx, string(of.Kind), key, secret), map[string]string{}
		for name, data := range secret.Data {
			got.keys[name] = string(data)
		}
	} else {
		config := &corev1.ConfigMap{}
		got.err = s.get(ctx, string(of.Kind), key, config)
		got.keys = config.Data
	}
	s.known[of] = got
	return got.keys, got.err
}

// dereference returns the value of one key of a Secret or ConfigMap. When the key or the object does not exist, the error wraps a
// *missingReference.
func (s *Sources) dereference(ctx context.Context, ref *reference) (string, error) {
	keys, err := s.contents(ctx, *ref)
	text, ok := keys[ref.Key]
	switch {
	case apierrors.IsNotFound(err):
		e := fault.Of(about("key "+ref.Key, err))
		e.Err = &missingReference{ref: ref, object: true}
		return "", e
	case err != nil:
		return "", about("key "+ref.Key, err)
	case !ok:
		e := fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: the key does not exist; add it", ref)
		e.Err = &missingReference{ref: ref}
		return "", e
	}
	return text, nil
}
