package autoscale

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// annotation marks a Secret whose content drover has created and may change.
const annotation = v1alpha1.Prefix + "grpc-certificates"

// keep reads a Secret, calls bring with the Secret's data, and writes the Secret. bring changes the data and returns a text
// for each change. When bring returns none, keep writes nothing.
//
// Errors: the Secret cannot be read or written, or has content that drover has not created. The errors name the Secret. An
// error about a write at the same time by another client is recognised by [simultaneous].
func (k *Keeper) keep(ctx context.Context, name types.NamespacedName, bring func(map[string][]byte) ([]string, error)) error {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, name, secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Secret %s: %w", name, err)
	}
	missing := err != nil
	if foreign(secret) {
		return fmt.Errorf("the Secret %s was not made by drover (the annotation %s is missing): delete the Secret, or name another one with --grpc-secrets", name, annotation)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	changes, err := bring(secret.Data)
	if err != nil {
		return fmt.Errorf("reading the Secret %s: %w; delete the Secret, so that drover makes new certificates, and then restart the autoscaler", name, err)
	}
	if len(changes) == 0 {
		return nil
	}
	if err := k.write(ctx, name, secret, missing); err != nil {
		return fmt.Errorf("writing the Secret %s: %w", name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Stored new certificates of gRPC", "secret", name.String(), "changes", strings.Join(changes, "; "))
	return nil
}

// simultaneous reports whether a write failed because another client has written the same Secret since it was read.
func simultaneous(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// foreign reports whether a Secret holds content that drover has not created. An empty Secret is not foreign: drover may
// fill it.
func foreign(secret *corev1.Secret) bool {
	_, ours := secret.Annotations[annotation]
	return !ours && len(secret.Data) > 0
}

// write creates the Secret when it is missing. Otherwise it updates the Secret, unless the Secret has changed since it
// was read.
func (k *Keeper) write(ctx context.Context, name types.NamespacedName, secret *corev1.Secret, missing bool) error {
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotation, "made by drover")
	if !missing {
		return k.Client.Update(ctx, secret)
	}
	secret.Namespace, secret.Name, secret.Type = name.Namespace, name.Name, corev1.SecretTypeTLS
	secret.Labels = map[string]string{"app.kubernetes.io/managed-by": "drover"}
	return k.Client.Create(ctx, secret)
}
