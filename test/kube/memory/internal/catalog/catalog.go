// Package catalog holds the kinds that the in-memory API server serves: their paths, how an object of each kind is read
// and stored, and which of its fields a writer owns. The package stores no objects and knows nothing about requests.
package catalog

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsinternal "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// The names of the known subresources.
const (
	SubStatus   = "status"
	SubApproval = "approval"
	SubEviction = "eviction"
)

// Kind is one resource and its properties.
type Kind struct {
	schema.GroupVersionKind
	Plural     string
	short      []string
	Namespaced bool
	// subresources are the kind's subresources that the server supports.
	subresources []string
	// Custom is true for a kind from a CustomResourceDefinition. structure is the kind's schema.
	Custom    bool
	structure *structuralschema.Structural
	// Counts reports whether the server counts changes of an object in metadata.generation.
	Counts bool
	// BornWithStatus reports whether a create keeps the status of its object.
	BornWithStatus bool
	// Conditional reports whether an update must name the resource version that it is based on.
	Conditional bool
	// selectable are the selectable fields besides name and namespace, as dotted paths.
	selectable []string
	Managers   map[string]*managers
}

// Has reports whether the kind has the subresource.
func (k *Kind) Has(subresource string) bool { return slices.Contains(k.subresources, subresource) }

// Resource returns the group and plural name of the kind, for errors.
func (k *Kind) Resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// Catalog is a set of kinds. It is immutable, and several servers may share it.
type Catalog struct {
	Kinds  []*Kind
	ByPath map[schema.GroupVersionResource]*Kind
	// ByKind holds the kinds by group and kind, as owner references name them.
	ByKind map[schema.GroupKind]*Kind
}

// builtin are Kubernetes' own kinds that are served.
var builtin = []Kind{
	{GroupVersionKind: Core("Namespace"), Plural: "namespaces", short: []string{"ns"}, subresources: []string{SubStatus}},
	{GroupVersionKind: Core("Node"), Plural: "nodes", short: []string{"no"}, subresources: []string{SubStatus}, BornWithStatus: true, selectable: []string{"spec.unschedulable"}},
	{GroupVersionKind: Core("Pod"), Plural: "pods", short: []string{"po"}, Namespaced: true, Counts: true, subresources: []string{SubStatus, SubEviction}, selectable: []string{"spec.nodeName", "status.phase"}},
	{GroupVersionKind: Core("Secret"), Plural: "secrets", Namespaced: true, selectable: []string{"type"}},
	{GroupVersionKind: Core("ConfigMap"), Plural: "configmaps", short: []string{"cm"}, Namespaced: true},
	{GroupVersionKind: Core("Service"), Plural: "services", short: []string{"svc"}, Namespaced: true, subresources: []string{SubStatus}},
	{GroupVersionKind: Core("ServiceAccount"), Plural: "serviceaccounts", short: []string{"sa"}, Namespaced: true},
	{GroupVersionKind: Core("Event"), Plural: "events", short: []string{"ev"}, Namespaced: true},
	{GroupVersionKind: Core("PersistentVolume"), Plural: "persistentvolumes", short: []string{"pv"}, subresources: []string{SubStatus}},
	{GroupVersionKind: Core("PersistentVolumeClaim"), Plural: "persistentvolumeclaims", short: []string{"pvc"}, Namespaced: true, subresources: []string{SubStatus}},
	{GroupVersionKind: V1("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"), Plural: "validatingadmissionpolicies", Counts: true, subresources: []string{SubStatus}},
	{GroupVersionKind: V1("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"), Plural: "validatingadmissionpolicybindings", Counts: true},
	{GroupVersionKind: V1("apps", "DaemonSet"), Plural: "daemonsets", short: []string{"ds"}, Namespaced: true, Counts: true, subresources: []string{SubStatus}},
	{GroupVersionKind: V1("apps", "ReplicaSet"), Plural: "replicasets", short: []string{"rs"}, Namespaced: true, Counts: true, subresources: []string{SubStatus}},
	{GroupVersionKind: V1("certificates.k8s.io", "CertificateSigningRequest"), Plural: "certificatesigningrequests", short: []string{"csr"}, subresources: []string{SubStatus, SubApproval}, selectable: []string{"spec.signerName"}},
	{GroupVersionKind: V1("coordination.k8s.io", "Lease"), Plural: "leases", Namespaced: true, Conditional: true},
	{GroupVersionKind: V1("events.k8s.io", "Event"), Plural: "events", Namespaced: true},
	{GroupVersionKind: V1("policy", "PodDisruptionBudget"), Plural: "poddisruptionbudgets", short: []string{"pdb"}, Namespaced: true, Counts: true, Conditional: true, subresources: []string{SubStatus}},
	{GroupVersionKind: V1("rbac.authorization.k8s.io", "ClusterRole"), Plural: "clusterroles"},
	{GroupVersionKind: V1("rbac.authorization.k8s.io", "ClusterRoleBinding"), Plural: "clusterrolebindings"},
	{GroupVersionKind: V1("storage.k8s.io", "VolumeAttachment"), Plural: "volumeattachments", subresources: []string{SubStatus}},
	{GroupVersionKind: V1("storage.k8s.io", "StorageClass"), Plural: "storageclasses", short: []string{"sc"}},
}

// Core returns the GroupVersionKind of a kind in the core group.
func Core(name string) schema.GroupVersionKind { return V1("", name) }

// V1 returns the GroupVersionKind of a kind in version v1 of a group.
func V1(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

// New returns a catalog of the built-in kinds, and of the kinds that the CustomResourceDefinitions among the objects
// define. It returns an error if it cannot read one of these CustomResourceDefinitions.
func New(objects ...*unstructured.Unstructured) (*Catalog, error) {
	c := &Catalog{ByPath: map[schema.GroupVersionResource]*Kind{}, ByKind: map[schema.GroupKind]*Kind{}}
	types := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for i := range builtin {
		k := builtin[i]
		if err := c.add(&k, types); err != nil {
			return nil, err
		}
	}
	if err := c.addCustom(definitions()); err != nil {
		return nil, fmt.Errorf("preparing the kind of definitions: %w", err)
	}
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", o.GetName(), err)
		}
		if err := c.addCustom(&crd); err != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", o.GetName(), err)
		}
	}
	return c, nil
}

// definitions returns a definition of the kind CustomResourceDefinition itself, so that clients can create CRDs. Such
// CRDs are stored as the client sent them. They add no kinds: the server has only the kinds in the catalog.
func definitions() *apiextensionsv1.CustomResourceDefinition {
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	schema := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
	}}
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: apiextensionsv1.GroupName, Scope: apiextensionsv1.ClusterScoped,
		Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions", ShortNames: []string{"crd"}},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Storage: true, Served: true, Schema: schema}},
	}}
}

// addCustom adds the storage version of a custom kind.
func (c *Catalog) addCustom(crd *apiextensionsv1.CustomResourceDefinition) error {
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if at < 0 {
		return fmt.Errorf("no version is stored")
	}
	version := crd.Spec.Versions[at]
	var internal apiextensionsinternal.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		return err
	}
	structure, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return err
	}
	k := &Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind},
		Plural:           crd.Spec.Names.Plural, short: crd.Spec.Names.ShortNames,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Custom:     true, structure: structure, Counts: true, Conditional: true, BornWithStatus: true,
	}
	if version.Subresources != nil && version.Subresources.Status != nil {
		k.subresources, k.BornWithStatus = []string{SubStatus}, false
	}
	for _, field := range version.SelectableFields {
		k.selectable = append(k.selectable, field.JSONPath[1:])
	}
	types, err := customTypes(k, structure)
	if err != nil {
		return err
	}
	return c.add(k, types)
}

func (c *Catalog) add(k *Kind, types typeConverter) error {
	var err error
	if k.Managers, err = newManagers(k, types); err != nil {
		return fmt.Errorf("preparing %s: %w", k.Kind, err)
	}
	c.Kinds = append(c.Kinds, k)
	c.ByPath[k.GroupVersion().WithResource(k.Plural)] = k
	c.ByKind[k.GroupKind()] = k
	return nil
}

// GroupVersions returns the served group versions in order, with the core group's first.
func (c *Catalog) GroupVersions() []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, k := range c.Kinds {
		if !slices.Contains(out, k.GroupVersion()) {
			out = append(out, k.GroupVersion())
		}
	}
	return out
}

// Resources lists the resources of a group version in the form of discovery.
func (c *Catalog) Resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	for _, k := range c.Kinds {
		if k.GroupVersion() != gv {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.Plural, Namespaced: k.Namespaced, Kind: k.Kind, Verbs: verbs, ShortNames: k.short,
		})
		for _, sub := range k.subresources {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.Plural + "/" + sub, Namespaced: k.Namespaced, Kind: k.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	return list
}

// eventFields are the fields by which Events may be selected, both those of the core group and those of events.k8s.io.
// A name with a dot at its end stands for all fields below it.
var eventFields = []string{"involvedObject.", "regarding.", "reason", "reportingController", "source", "type"}

// Selects reports whether objects of the kind may be selected by a field.
func (k *Kind) Selects(name string) bool {
	if name == "metadata.name" || name == "metadata.namespace" && k.Namespaced || slices.Contains(k.selectable, name) {
		return true
	}
	return k.Kind == "Event" && slices.ContainsFunc(eventFields, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
