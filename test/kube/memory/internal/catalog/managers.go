package catalog

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type typeConverter = managedfields.TypeConverter

// managers is the API server's own implementation of field managers. It tracks the owner of each field, for one path of a
// kind.
type managers = managedfields.FieldManager

// newManagers returns the field managers of a kind: one for the kind itself (key "") and one per subresource. Each ignores
// the fields that a request to its path cannot change.
func newManagers(k *Kind, types typeConverter) (map[string]*managers, error) {
	construct := managedfields.NewDefaultFieldManager
	if k.Custom {
		construct = managedfields.NewDefaultCRDFieldManager
	}
	out := map[string]*managers{}
	for _, sub := range append([]string{""}, k.subresources...) {
		m, err := construct(types, asIs{}, asIs{}, asIs{}, k.GroupVersionKind, k.GroupVersion(), sub, untouched(k, sub))
		if err != nil {
			return nil, err
		}
		out[sub] = m
	}
	return out, nil
}

// untouched returns the fields that a write to a subresource never owns. With an empty subresource, these are the fields
// for a write to the object itself.
func untouched(k *Kind, subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	var paths []string
	switch {
	case subresource == "" && k.Has(SubStatus):
		paths = []string{"status"}
	case subresource == SubStatus && k.Custom:
		paths = []string{"metadata", "spec"}
	case subresource != "":
		paths = []string{"spec"}
	}
	set := fieldpath.NewSet()
	for _, path := range paths {
		set.Insert(fieldpath.MakePathOrDie(path))
	}
	version := fieldpath.APIVersion(k.GroupVersion().String())
	return fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{version: set})
}

// asIs implements the conversion, defaulting and creation of objects that the field managers need. It converts nothing
// and sets no defaults, because each kind has only one version and no defaults.
type asIs struct{}

func (asIs) Convert(_, _, _ any) error { return nil }

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (asIs) Default(runtime.Object) {}

func (asIs) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

const (
	metaModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	rootModel = "root"
)

// customTypes returns the schema for merging objects of a custom kind.
func customTypes(k *Kind, structure *structuralschema.Structural) (typeConverter, error) {
	root := structure.ToKubeOpenAPI()
	root.Properties["metadata"] = *spec.RefSchema("#/definitions/" + metaModel)
	root.Properties["apiVersion"] = *spec.StringProperty()
	root.Properties["kind"] = *spec.StringProperty()
	root.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
		"group": k.Group, "version": k.Version, "kind": k.Kind,
	}})
	return managedfields.NewTypeConverter(map[string]*spec.Schema{rootModel: root, metaModel: objectMeta()}, false)
}

// objectMeta describes how metadata is merged: labels and annotations by key, finalizers as a set, owners by UID.
func objectMeta() *spec.Schema {
	text, number := spec.StringProperty(), spec.Int64Property()
	finalizers := spec.ArrayProperty(text)
	finalizers.AddExtension("x-kubernetes-list-type", "set")
	owner := objectOf(map[string]*spec.Schema{
		"apiVersion": text, "kind": text, "name": text, "uid": text,
		"controller": spec.BoolProperty(), "blockOwnerDeletion": spec.BoolProperty(),
	})
	owner.AddExtension("x-kubernetes-map-type", "atomic")
	owners := spec.ArrayProperty(owner)
	owners.AddExtension("x-kubernetes-list-type", "map")
	owners.AddExtension("x-kubernetes-list-map-keys", []any{"uid"})
	return objectOf(map[string]*spec.Schema{
		"name": text, "namespace": text, "generateName": text, "uid": text, "resourceVersion": text, "selfLink": text,
		"creationTimestamp": text, "deletionTimestamp": text, "generation": number, "deletionGracePeriodSeconds": number,
		"labels": spec.MapProperty(text), "annotations": spec.MapProperty(text),
		"finalizers": finalizers, "ownerReferences": owners,
		"managedFields": spec.ArrayProperty(objectOf(map[string]*spec.Schema{
			"manager": text, "operation": text, "apiVersion": text, "time": text, "fieldsType": text, "subresource": text,
			"fieldsV1": untyped(),
		})),
	})
}

func objectOf(properties map[string]*spec.Schema) *spec.Schema {
	s := &spec.Schema{}
	s.Typed("object", "")
	s.Properties = map[string]spec.Schema{}
	for name, property := range properties {
		s.Properties[name] = *property
	}
	return s
}

// untyped is the schema of any value.
func untyped() *spec.Schema {
	s := &spec.Schema{}
	s.Typed("object", "")
	s.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	return s
}
