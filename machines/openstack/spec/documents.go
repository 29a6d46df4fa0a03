package spec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/settings"
)

// read collects the layers of a provider spec, from the highest to the lowest (Machine, class, Cluster, configured cloud), and
// merges their provider configs.
func (s *Sources) read(ctx context.Context) error {
	o := &s.object
	spec, err := o.Spec.Provider()
	if err != nil && !o.Lenient {
		return invalid(o.Name, "spec: %v", err)
	}
	if err != nil {
		s.note(fmt.Sprintf("%s: spec: %v", o.Name, err))
		spec = o.Spec.ProviderSpec
	}
	if err := s.document(ctx, o.Name+": spec.providerSpec.value", o.Namespace, spec.Value); err != nil {
		return err
	}
	if spec.ValueFrom != nil && spec.ValueFrom.MachineClass != nil {
		if err := s.class(ctx, o.Name, spec.ValueFrom.MachineClass); err != nil {
			return err
		}
	}
	if err := s.cluster(ctx, o.Name, o.Labels); err != nil {
		return err
	}
	s.mergeConfigured()
	return nil
}

// document adds one providerSpec.value as a layer, and follows its references.
func (s *Sources) document(ctx context.Context, path, namespace string, document *runtime.RawExtension) error {
	if err := v1alpha1.CheckDocument(document); err != nil && !s.object.Lenient {
		return invalid(path, "%v", err)
	}
	var raw []byte
	if document != nil {
		raw = document.Raw
	}
	ignored, err := s.checkProvider(path, raw)
	if err != nil {
		return err
	}
	if ignored {
		raw = nil
	}
	config, wrong := v1alpha1.ParseProviderConfig(path, raw)
	s.refuse(wrong)
	fill(s.Config, config)
	path += ".cloudProviderSpec"
	raw = config.CloudProviderSpec.Raw
	s.noteIgnored(path, raw)
	s.mergeDocument(path, namespace, raw, func(ref *reference) (string, error) { return s.dereference(ctx, ref) })
	return nil
}

// mergeDocument adds a cloudProviderSpec as a layer.
func (s *Sources) mergeDocument(path, namespace string, raw []byte, get dereference) {
	fields, wrong := v1alpha1.Fields(path, raw, fieldNames, ignoredFields)
	s.refuse(wrong)
	values := map[string]value{}
	for name, raw := range fields {
		values[name] = readValue(name, path+"."+name, raw, get)
	}
	s.merge(path, namespace, values)
}

// noteIgnored adds a warning for each known key of a document that has no effect, unless its value asks for nothing.
func (s *Sources) noteIgnored(path string, raw []byte) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return
	}
	for key, value := range all {
		if why := withoutEffect[v1alpha1.Spelling(key, ignoredFields)]; why != "" && !v1alpha1.IsUnset(value) {
			s.note(fmt.Sprintf("%s.%s: has no effect (%s); you may remove it", path, key, why))
		}
	}
}

// refuse records the errors about the fields of a document, which [Sources.Spec] returns together with all others. When reading is lenient,
// each is a warning instead, and a document that is not a JSON object is recorded in Unreadable.
func (s *Sources) refuse(wrong []error) {
	for _, err := range wrong {
		refused := fault.New(fault.Invalid, fault.CodeInvalidSpec, "%v", err)
		if !s.object.Lenient {
			s.refused = append(s.refused, refused)
			continue
		}
		s.note(err.Error())
		if s.Unreadable == nil && errors.Is(err, v1alpha1.ErrNotAnObject) {
			s.Unreadable = refused
		}
	}
}

// fill sets each empty field of high to its value in low.
func fill(high, low *v1alpha1.ProviderConfig) {
	into, from := reflect.ValueOf(high).Elem(), reflect.ValueOf(low).Elem()
	for i := range into.NumField() {
		if f := into.Field(i); f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0 {
			f.Set(from.Field(i))
		}
	}
}

// class adds the layers of a MachineClass: credentials of its Secrets, then its own document.
func (s *Sources) class(ctx context.Context, name string, ref *v1alpha1.MachineClassRef) error {
	namespace := cmp.Or(ref.Namespace, s.object.Namespace)
	class := &v1alpha1.MachineClass{}
	if err := s.get(ctx, "MachineClass", types.NamespacedName{Namespace: namespace, Name: ref.Name}, class); err != nil {
		return about(name+": spec.providerSpec.valueFrom.machineClass", err)
	}
	path := fmt.Sprintf("MachineClass %s/%s", namespace, ref.Name)
	if class.Provider != "" && class.Provider != Name {
		return invalid(path, "provider %q is not supported; the provider is %s", class.Provider, Name)
	}
	if err := s.secretLayer(ctx, path+": credentialsSecretRef", namespace, class.CredentialsSecretRef); err != nil {
		return err
	}
	if err := s.secretLayer(ctx, path+": secretRef", namespace, class.SecretRef); err != nil {
		return err
	}
	return s.document(ctx, path+": providerSpec", namespace, class.ProviderSpec)
}

// secretLayer adds the credentials in a Secret as a layer, and ignores the other keys. A key is a field, or the name of a setting or
// variable of the configured cloud.
func (s *Sources) secretLayer(ctx context.Context, path, namespace string, secret *corev1.SecretReference) error {
	if secret == nil || secret.Name == "" {
		return nil
	}
	of := reference{Kind: secretKind, Namespace: cmp.Or(secret.Namespace, namespace), Name: secret.Name}
	keys, err := s.contents(ctx, of)
	if err != nil {
		return about(path, err)
	}
	// read has, by field, the key of the Secret from which the field was read, such as OS_USERNAME for username.
	read, values := map[string]string{}, map[string]value{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		field := settings.FieldOf(key)
		if field == "" || keys[key] == "" {
			continue
		}
		if before, taken := read[field]; taken && keys[before] != keys[key] {
			return invalid(of.object(), "keys %s and %s have the same meaning and different values; keep one of them", before, key)
		}
		ref := of
		ref.Key = key
		v := textValue(keys[key], &ref)
		v.at = fmt.Sprintf("%s (cloudProviderSpec.%s)", &ref, field)
		read[field], values[field] = key, v
	}
	s.merge(of.object(), of.Namespace, values)
	return nil
}

// cluster adds the document of a Cluster as a layer: of the Cluster that the label names, or of the only Cluster of the namespace. Without a
// label it adds nothing when the namespace has no Cluster, and refuses a choice between several.
func (s *Sources) cluster(ctx context.Context, name string, labels map[string]string) error {
	if s.reader.options.Reader == nil {
		return nil
	}
	var c *v1alpha1.Cluster
	if wanted := labels[v1alpha1.ClusterNameLabel]; wanted != "" {
		c = &v1alpha1.Cluster{}
		key := types.NamespacedName{Namespace: s.object.Namespace, Name: wanted}
		if err := s.get(ctx, "Cluster", key, c); err != nil {
			return about(fmt.Sprintf("%s: label %s", name, v1alpha1.ClusterNameLabel), err)
		}
	} else {
		all := &v1alpha1.ClusterList{}
		if err := s.reader.options.Reader.List(ctx, all, ctrlclient.InNamespace(s.object.Namespace)); err != nil && !meta.IsNoMatchError(err) {
			return fault.New(fault.Transient, fault.CodeUnknown, "%s: listing Clusters: %v", name, err)
		}
		only, err := s.onlyCluster(name, all.Items)
		if err != nil {
			return s.ambiguous(err)
		}
		c = only
	}
	if c == nil {
		return nil
	}
	return s.document(ctx, fmt.Sprintf("Cluster %s/%s: spec.providerSpec.value", c.Namespace, c.Name), c.Namespace, c.Spec.ProviderSpec.Value)
}

// onlyCluster returns the Cluster of a namespace that a Machine without a label belongs to; nil when there is none. When there are several,
// those of other programs do not count. It returns an error when two of the others have different documents.
func (s *Sources) onlyCluster(name string, clusters []v1alpha1.Cluster) (*v1alpha1.Cluster, *fault.Error) {
	if len(clusters) > 1 {
		clusters = slices.DeleteFunc(slices.Clone(clusters), func(c v1alpha1.Cluster) bool { return isForeignCluster(c.Spec.ProviderSpec.Value) })
	}
	if len(clusters) == 0 {
		return nil, nil
	}
	first := &clusters[0]
	other := slices.IndexFunc(clusters, func(c v1alpha1.Cluster) bool {
		return !equality.Semantic.DeepEqual(c.Spec.ProviderSpec.Value, first.Spec.ProviderSpec.Value)
	})
	if other < 0 {
		return first, nil
	}
	return nil, invalid(name, "the namespace has the Clusters %s and %s with different provider specs, and the Machine has no label %s that names its own; put this label on the template of its MachineDeployment or set, or delete the Cluster that is not used",
		first.Name, clusters[other].Name, v1alpha1.ClusterNameLabel)
}

// ambiguous refuses to read a provider spec without the document of its Cluster. When reading is lenient, the document counts as unreadable,
// so that a server is looked for only where it is known to be.
func (s *Sources) ambiguous(err *fault.Error) error {
	if !s.object.Lenient {
		return err
	}
	s.note(err.Message)
	s.Unreadable = cmp.Or(s.Unreadable, err)
	return nil
}
