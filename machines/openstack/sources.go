package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// configuredCloud is the source of what neither Machine, class nor Cluster gives.
const configuredCloud = "the configured cloud (clouds.yaml or OS_* variables)"

// sources read a provider spec's layers from the API.
type sources struct {
	reader ctrlclient.Reader
	// namespace of the Machine: the only one that references may point into, beside the allowed ones.
	namespace string
	allowed   []string
	// account is drover's ServiceAccount (Options.ServiceAccount).
	account string
	// lenient leaves out what cannot be read instead of refusing it: for Machines that have, or had, a server.
	lenient bool
	// named: the Machine has the ID of an OpenStack server, so its cloudProvider does not matter any more.
	named bool
	// unreadable is the first document that is no object although reading is lenient; nil: there is none. What it said
	// about the cloud and the credentials is not known.
	unreadable *fault.Error
	// configured are the credentials of the configured cloud.
	configured *client.Credentials

	config *v1alpha1.ProviderConfig
	layers []layer
	// noted is what is accepted without effect.
	noted []string
}

// sources returns a reader of the provider specs of one namespace.
func (c *Cloud) sources(namespace string, lenient bool) *sources {
	return &sources{
		reader: c.options.Reader, namespace: namespace, allowed: c.options.AllowedNamespaces, account: c.options.ServiceAccount,
		configured: &c.options.Configured, lenient: lenient,
	}
}

// of puts the object's name before a text that does not begin with it.
func (*sources) of(name, text string) string {
	if strings.HasPrefix(text, name) {
		return text
	}
	return name + ": " + text
}

// warnings are sorted and each stands once.
func (s *sources) warnings() []string {
	slices.Sort(s.noted)
	return slices.Compact(s.noted)
}

// note records what is accepted without effect.
func (s *sources) note(text string) { s.noted = append(s.noted, text) }

// noteIgnored notes the keys of a document that are known and have no effect.
func (s *sources) noteIgnored(path string, raw []byte) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return
	}
	for key := range all {
		if why := withoutEffect[v1alpha1.Spelling(key, ignoredFields)]; why != "" {
			s.note(fmt.Sprintf("%s.%s: has no effect (%s); it may be removed", path, key, why))
		}
	}
}

// read collects the layers of a provider spec, from the highest to the lowest (design: Machine, class, Cluster,
// configured cloud), and merges their envelopes.
func (s *sources) read(ctx context.Context, name string, m *v1alpha1.MachineSpec, labels map[string]string) error {
	s.config = &v1alpha1.ProviderConfig{}
	spec, err := m.Provider()
	if err != nil && s.lenient {
		s.note(fmt.Sprintf("%s: spec: %v", name, err))
		spec, err = m.ProviderSpec, nil
	}
	if err != nil {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: spec: %v", name, err)
	}
	if err := s.document(name+": spec.providerSpec.value", s.namespace, spec.Value); err != nil {
		return err
	}
	if spec.ValueFrom != nil && spec.ValueFrom.MachineClass != nil {
		if err := s.class(ctx, name, spec.ValueFrom.MachineClass); err != nil {
			return err
		}
	}
	if err := s.cluster(ctx, name, labels); err != nil {
		return err
	}
	s.layers = append(s.layers, layer{source: configuredCloud, fields: fieldsOf(s.configured)})
	return nil
}

// document adds one providerSpec.value.
func (s *sources) document(path, namespace string, value *runtime.RawExtension) error {
	var raw []byte
	if value != nil {
		raw = value.Raw
	}
	if err := s.checkProvider(path, raw); err != nil {
		return err
	}
	config, err := v1alpha1.ParseProviderConfig(path, s.readable(path, raw, func(raw []byte) error {
		_, err := v1alpha1.ParseProviderConfig(path, raw)
		return err
	}))
	if err != nil {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%v", err)
	}
	inner := path + ".cloudProviderSpec"
	s.noteIgnored(inner, config.CloudProviderSpec.Raw)
	l, err := readLayer(inner, s.readable(inner, config.CloudProviderSpec.Raw, func(raw []byte) error {
		_, err := readLayer(inner, raw)
		return err
	}))
	if err != nil {
		return err
	}
	l.namespace = namespace
	s.layers = append(s.layers, l)
	fill(s.config, config)
	return nil
}

// fill sets what the higher config leaves empty.
func fill(high, low *v1alpha1.ProviderConfig) {
	text := func(h *string, l string) {
		if *h == "" {
			*h = l
		}
	}
	text(&high.CAPublicKey, low.CAPublicKey)
	text(&high.CloudProvider, low.CloudProvider)
	text(&high.OperatingSystem, low.OperatingSystem)
	if len(high.SSHPublicKeys) == 0 {
		high.SSHPublicKeys = low.SSHPublicKeys
	}
	if len(high.CloudProviderSpec.Raw) == 0 {
		high.CloudProviderSpec = low.CloudProviderSpec
	}
	if len(high.OperatingSystemSpec.Raw) == 0 {
		high.OperatingSystemSpec = low.OperatingSystemSpec
	}
	if high.Network == nil {
		high.Network = low.Network
	}
	if high.OverwriteCloudConfig == nil {
		high.OverwriteCloudConfig = low.OverwriteCloudConfig
	}
}

// class adds a MachineClass: credentials of its Secrets, then its own document.
func (s *sources) class(ctx context.Context, name string, ref *v1alpha1.MachineClassRef) error {
	namespace := ref.Namespace
	if namespace == "" {
		namespace = s.namespace
	}
	field := name + ": spec.providerSpec.valueFrom.machineClass"
	if err := s.mayRead(field, namespace); err != nil {
		return err
	}
	class := &v1alpha1.MachineClass{}
	if err := s.get(ctx, field, types.NamespacedName{Namespace: namespace, Name: ref.Name}, class); err != nil {
		return err
	}
	path := fmt.Sprintf("MachineClass %s/%s", namespace, ref.Name)
	if class.Provider != "" && class.Provider != "openstack" {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: provider %q is not supported; the provider is openstack", path, class.Provider)
	}
	for _, secret := range []struct {
		field string
		ref   *corev1.SecretReference
	}{{"credentialsSecretRef", class.CredentialsSecretRef}, {"secretRef", class.SecretRef}} {
		if err := s.secretLayer(ctx, path+": "+secret.field, namespace, secret.ref); err != nil {
			return err
		}
	}
	return s.document(path+": providerSpec", namespace, class.ProviderSpec)
}

// credentialFields may stand in a class's Secrets, under their own names; authURL is another name of the endpoint.
var credentialFields = []string{
	"identityEndpoint", "region", "tokenId", "username", "password", "domainName", "projectName", "tenantName", "projectID",
	"tenantID", "applicationCredentialID", "applicationCredentialName", "applicationCredentialSecret",
}

// secretLayer adds the credentials that a Secret holds; its other keys are not ours.
func (s *sources) secretLayer(ctx context.Context, path, namespace string, ref *corev1.SecretReference) error {
	if ref == nil || ref.Name == "" {
		return nil
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	if err := s.mayRead(path, namespace); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := s.get(ctx, path, types.NamespacedName{Namespace: namespace, Name: ref.Name}, secret); err != nil {
		return err
	}
	l := layer{source: fmt.Sprintf("Secret %s/%s", namespace, ref.Name), namespace: namespace, secret: &reference{Kind: secretKind, Namespace: namespace, Name: ref.Name}, fields: map[string]json.RawMessage{}}
	for _, field := range credentialFields {
		text := string(secret.Data[field])
		if field == "identityEndpoint" && text == "" {
			text = string(secret.Data["authURL"])
		}
		raw, err := json.Marshal(text)
		if err == nil && text != "" {
			l.fields[field] = raw
		}
	}
	s.layers = append(s.layers, l)
	return nil
}

// cluster adds the Cluster that the label names, else the only one of the namespace; with none or several, nothing.
func (s *sources) cluster(ctx context.Context, name string, labels map[string]string) error {
	if s.reader == nil {
		return nil
	}
	if wanted := labels[v1alpha1.ClusterNameLabel]; wanted != "" {
		c := &v1alpha1.Cluster{}
		field := fmt.Sprintf("%s: label %s", name, v1alpha1.ClusterNameLabel)
		if err := s.get(ctx, field, types.NamespacedName{Namespace: s.namespace, Name: wanted}, c); err != nil {
			return err
		}
		return s.clusterDocument(c)
	}
	all := &v1alpha1.ClusterList{}
	err := s.reader.List(ctx, all, ctrlclient.InNamespace(s.namespace), ctrlclient.Limit(2))
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fault.New(fault.Transient, fault.CodeUnknown, "%s: listing Clusters: %v", name, err)
	case len(all.Items) == 1:
		return s.clusterDocument(&all.Items[0])
	}
	return nil
}

func (s *sources) clusterDocument(c *v1alpha1.Cluster) error {
	return s.document(fmt.Sprintf("Cluster %s/%s: spec.providerSpec.value", c.Namespace, c.Name), c.Namespace, c.Spec.ProviderSpec.Value)
}

// get reads an object; one that is missing is an error that names the field which wants it.
func (s *sources) get(ctx context.Context, field string, key types.NamespacedName, into ctrlclient.Object) error {
	if s.reader == nil {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: %s cannot be read without a cluster", field, key)
	}
	err := s.reader.Get(ctx, key, into)
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
			field, what, key, v1alpha1.RoleReferences, key.Namespace, v1alpha1.BindReferences(s.account, key.Namespace))
	case err != nil:
		return fault.New(fault.Transient, fault.CodeUnknown, "%s: reading %s: %v", field, key, err)
	}
	return nil
}

// kindOf returns the kind of an object that a provider spec names, and whether drover reads it under the role
// v1alpha1.RoleReferences.
func kindOf(o ctrlclient.Object) (kind string, isReference bool) {
	switch o.(type) {
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

// mayRead holds MC-12: references leave the Machine's namespace only for those that the operator has allowed.
func (s *sources) mayRead(field, namespace string) error {
	if namespace == s.namespace || slices.Contains(s.allowed, namespace) {
		return nil
	}
	return fault.New(fault.Invalid, fault.CodeInvalidSpec,
		"%s: points into namespace %s, which Machines of %s may not use; move the object to %s, or start drover with --secret-namespaces=%s and run: %s",
		field, namespace, s.namespace, s.namespace, namespace, v1alpha1.BindReferences(s.account, namespace))
}

// dereference reads one key of a Secret or ConfigMap. The cause of the error about one that does not exist is a
// *missingReference.
func (s *sources) dereference(ctx context.Context, ref *reference) (string, error) {
	if err := s.mayRead(ref.String(), ref.Namespace); err != nil {
		return "", err
	}
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	var text string
	var ok bool
	if ref.Kind == secretKind {
		secret := &corev1.Secret{}
		if err := s.get(ctx, "key "+ref.Key, key, secret); err != nil {
			return "", missing(ref, err)
		}
		var data []byte
		data, ok = secret.Data[ref.Key]
		text = string(data)
	} else {
		config := &corev1.ConfigMap{}
		if err := s.get(ctx, "key "+ref.Key, key, config); err != nil {
			return "", missing(ref, err)
		}
		text, ok = config.Data[ref.Key]
	}
	if !ok {
		missing := fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: has no such key; add it", ref)
		missing.Err = &missingReference{ref: ref}
		return "", missing
	}
	return text, nil
}

// missing marks an error about an object that does not exist as one about a missing reference.
func missing(ref *reference, err error) error {
	if e := fault.Of(err); apierrors.IsNotFound(err) {
		e.Err = &missingReference{ref: ref, object: true}
	}
	return err
}
