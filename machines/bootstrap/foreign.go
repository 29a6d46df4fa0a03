package bootstrap

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// text is user data that another program or a user wrote. It may contain placeholders. managed is true when operating-system-manager
// wrote it; such user data has its own token. content is empty when drover writes the user data itself.
type text struct {
	content string
	managed bool
	// from names the source in error messages.
	from string
}

// foreign returns user data that drover did not write: operating-system-manager's when that program manages the deployment, else
// overwriteCloudConfig, else the user data of the Machine's class.
func (s *Source) foreign(ctx context.Context, m *v1alpha1.Machine, owners Owners, config *v1alpha1.ProviderConfig) (text, error) {
	if ManagedByOSM(owners.Deployment) {
		content, err := s.managed(ctx, owners)
		return text{content: content, managed: true, from: "the user data of operating-system-manager"}, err
	}
	if own := config.OverwriteCloudConfig; own != nil && *own != "" {
		return text{content: *own, from: "overwriteCloudConfig"}, nil
	}
	content, err := s.ofClass(ctx, m)
	return text{content: content, from: "the user data in the Secret of the MachineClass"}, err
}

// managed reads the user data that operating-system-manager created for the revision of the Machine's set. While that user data is missing,
// or is for another revision, drover uses no other user data in its place (MC-45).
func (s *Source) managed(ctx context.Context, o Owners) (string, error) {
	key := types.NamespacedName{Namespace: namespaceCloudInit, Name: fmt.Sprintf("%s-%s-bootstrap-config", o.Deployment.Name, o.Deployment.Namespace)}
	var secret corev1.Secret
	if err := s.secret(ctx, key, &secret); err != nil {
		return "", err
	}
	content := string(secret.Data["cloud-config"])
	if content == "" {
		return "", waiting("Secret %s of operating-system-manager has no cloud-config yet", key)
	}
	have, want := secret.Annotations[annotationRevisionOSM], o.Set.Annotations[v1alpha1.AnnotationRevision]
	if have != want {
		return "", waiting("Secret %s of operating-system-manager is for revision %q, and MachineSet %s has revision %q", key, have, o.Set.Name, want)
	}
	return content, nil
}

// ofClass returns the user data of the Machine's class. It is in the Secret of secretRef, under the key userData, or else
// cloudConfig. A key in the Secret of credentialsSecretRef replaces the same key of secretRef. ofClass returns "" when there is
// no such user data.
func (s *Source) ofClass(ctx context.Context, m *v1alpha1.Machine) (string, error) {
	spec, err := m.Spec.Provider()
	if err != nil {
		return "", problem("spec: %v", err)
	}
	if spec.ValueFrom == nil || spec.ValueFrom.MachineClass == nil {
		return "", nil
	}
	key := types.NamespacedName{Namespace: spec.ValueFrom.MachineClass.Namespace, Name: spec.ValueFrom.MachineClass.Name}
	if key.Namespace == "" {
		key.Namespace = m.Namespace
	}
	if err := s.mayRead(m, key.Namespace); err != nil {
		return "", err
	}
	var class v1alpha1.MachineClass
	if err := s.options.Control.GetClient().Get(ctx, key, &class); err != nil {
		if apierrors.IsNotFound(err) {
			return "", waiting("MachineClass %s does not exist", key)
		}
		return "", fmt.Errorf("reading MachineClass %s: %w", key, err)
	}
	data := map[string]string{}
	for _, ref := range []*corev1.SecretReference{class.SecretRef, class.CredentialsSecretRef} {
		if err := s.layer(ctx, m, class.Namespace, ref, data); err != nil {
			return "", err
		}
	}
	if data["userData"] != "" {
		return data["userData"], nil
	}
	return data["cloudConfig"], nil
}

// layer copies the user data keys of a class's Secret into the map, where they replace existing values.
func (s *Source) layer(ctx context.Context, m *v1alpha1.Machine, namespace string, ref *corev1.SecretReference, into map[string]string) error {
	if ref == nil || ref.Name == "" {
		return nil
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	if err := s.mayRead(m, namespace); err != nil {
		return err
	}
	var secret corev1.Secret
	if err := s.secret(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &secret); err != nil {
		return err
	}
	for _, key := range []string{"userData", "cloudConfig"} {
		if len(secret.Data[key]) > 0 {
			into[key] = string(secret.Data[key])
		}
	}
	return nil
}

// mayRead returns an error when the Machine's class may not refer to an object in the namespace. A reference to another namespace than
// the Machine's is allowed only when the operator has allowed that namespace (MC-12).
func (s *Source) mayRead(m *v1alpha1.Machine, namespace string) error {
	if namespace == m.Namespace || slices.Contains(s.options.AllowedNamespaces, namespace) {
		return nil
	}
	return problem("the MachineClass refers to an object in namespace %s, which Machines of %s may not use; move the object to %s, or start drover with --secret-namespaces=%s and run: %s",
		namespace, m.Namespace, m.Namespace, namespace, v1alpha1.BindReferences(s.options.ServiceAccount, namespace))
}

// secret reads a Secret from the API server itself. It returns a *[Waiting] for a Secret that does not exist, or that drover may not
// read.
func (s *Source) secret(ctx context.Context, key types.NamespacedName, into *corev1.Secret) error {
	err := s.options.Control.GetAPIReader().Get(ctx, key, into)
	switch {
	case apierrors.IsNotFound(err):
		return waiting("Secret %s does not exist", key)
	case apierrors.IsForbidden(err):
		return &Waiting{Forbidden: true, Message: fmt.Sprintf(
			"Secret %s: drover may not read it (Forbidden): ClusterRole %s is not bound in namespace %s; bind it with: %s",
			key, v1alpha1.RoleReferences, key.Namespace, v1alpha1.BindReferences(s.options.ServiceAccount, key.Namespace))}
	case err != nil:
		return fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return nil
}

// foreignUserData fills the Machine's name into user data that drover did not write. It also fills in a token, when the user data has a
// placeholder for a token and was not written by operating-system-manager.
func (s *Source) foreignUserData(ctx context.Context, m *v1alpha1.Machine, t text) ([]byte, error) {
	var token Token
	if !t.managed && wantsToken(t.content) {
		var err error
		if token, err = s.Tokens.Ensure(ctx, m); err != nil {
			return nil, err
		}
	}
	return t.filled(m.ServerName(), token)
}

// filled returns the text with the Machine's name and token in it. A text that is too large is compressed, unless it is for Ignition, which
// does not decompress user data.
func (t text) filled(name string, token Token) ([]byte, error) {
	out := []byte(fill(t.content, name, token))
	if encodedLen(out) > maxEncoded && !bytes.HasPrefix(bytes.TrimSpace(out), []byte("{")) && !isCompressed(out) {
		out = compressed(out)
	}
	if n := encodedLen(out); n > maxEncoded {
		return nil, problem("%s has %d bytes in base64 form, and may have at most %d: shorten it", t.from, n, maxEncoded)
	}
	return out, nil
}
