package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Sources are the documents and Secrets of one provider spec.
type Sources struct {
	// Config is the provider config of the highest source; its empty fields are filled in from the lower ones.
	Config *v1alpha1.ProviderConfig
	// Unreadable is the error about the first document that is not a JSON object; nil when there is none. It is set only when
	// reading is lenient. The cloud and the credentials in that document are unknown.
	Unreadable *fault.Error

	reader *Reader
	// configured holds the credentials of the configured cloud at the time of Read.
	configured *configured
	objects    objects
	name       string
	lenient    bool
	hasServer  bool
	layers     []layer
	// noted are the warnings that have been found so far.
	noted []string
}

// Warnings returns one sentence for each part of the sources that is accepted without effect, sorted and without duplicates. Spec
// and Access add more while they read.
func (s *Sources) Warnings() []string {
	slices.Sort(s.noted)
	return slices.Compact(s.noted)
}

// note adds a warning.
func (s *Sources) note(text string) { s.noted = append(s.noted, text) }

// noteIgnored adds a warning for each known key of a document that has no effect.
func (s *Sources) noteIgnored(path string, raw []byte) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return
	}
	for key := range all {
		if why := withoutEffect[v1alpha1.Spelling(key, ignoredFields)]; why != "" {
			s.note(fmt.Sprintf("%s.%s: has no effect (%s); you may remove it", path, key, why))
		}
	}
}

// read collects the layers of a provider spec, from the highest to the lowest (Machine, class, Cluster, configured cloud), and
// merges their provider configs.
func (s *Sources) read(ctx context.Context, o Object) error {
	name := o.Name
	spec, err := o.Spec.Provider()
	if err != nil && s.lenient {
		s.note(fmt.Sprintf("%s: spec: %v", name, err))
		spec, err = o.Spec.ProviderSpec, nil
	}
	if err != nil {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: spec: %v", name, err)
	}
	if err := s.document(name+": spec.providerSpec.value", o.Namespace, spec.Value); err != nil {
		return err
	}
	if spec.ValueFrom != nil && spec.ValueFrom.MachineClass != nil {
		if err := s.class(ctx, name, spec.ValueFrom.MachineClass); err != nil {
			return err
		}
	}
	if err := s.cluster(ctx, name, o.Labels); err != nil {
		return err
	}
	s.layers = append(s.layers, s.configured.layer)
	return nil
}

// document adds one providerSpec.value as a layer.
func (s *Sources) document(path, namespace string, value *runtime.RawExtension) error {
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
	fill(s.Config, config)
	return nil
}

// fill sets each empty field of high to its value in low.
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

// class adds the layers of a MachineClass: credentials of its Secrets, then its own document.
func (s *Sources) class(ctx context.Context, name string, ref *v1alpha1.MachineClassRef) error {
	namespace := ref.Namespace
	if namespace == "" {
		namespace = s.objects.namespace
	}
	field := name + ": spec.providerSpec.valueFrom.machineClass"
	if err := s.objects.mayRead(field, namespace); err != nil {
		return err
	}
	class := &v1alpha1.MachineClass{}
	if err := s.objects.get(ctx, field, types.NamespacedName{Namespace: namespace, Name: ref.Name}, class); err != nil {
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

// secretLayer adds the credentials in a Secret as a layer, and ignores the other keys.
func (s *Sources) secretLayer(ctx context.Context, path, namespace string, ref *corev1.SecretReference) error {
	if ref == nil || ref.Name == "" {
		return nil
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	if err := s.objects.mayRead(path, namespace); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := s.objects.get(ctx, path, types.NamespacedName{Namespace: namespace, Name: ref.Name}, secret); err != nil {
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

// cluster adds the document of a Cluster as a layer: of the Cluster that the label names, or of the only Cluster of the
// namespace. Without a label it adds nothing when the namespace has several Clusters or none.
func (s *Sources) cluster(ctx context.Context, name string, labels map[string]string) error {
	if s.objects.reader == nil {
		return nil
	}
	if wanted := labels[v1alpha1.ClusterNameLabel]; wanted != "" {
		c := &v1alpha1.Cluster{}
		field := fmt.Sprintf("%s: label %s", name, v1alpha1.ClusterNameLabel)
		if err := s.objects.get(ctx, field, types.NamespacedName{Namespace: s.objects.namespace, Name: wanted}, c); err != nil {
			return err
		}
		return s.clusterDocument(c)
	}
	all := &v1alpha1.ClusterList{}
	err := s.objects.reader.List(ctx, all, ctrlclient.InNamespace(s.objects.namespace), ctrlclient.Limit(2))
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

func (s *Sources) clusterDocument(c *v1alpha1.Cluster) error {
	return s.document(fmt.Sprintf("Cluster %s/%s: spec.providerSpec.value", c.Namespace, c.Name), c.Namespace, c.Spec.ProviderSpec.Value)
}
