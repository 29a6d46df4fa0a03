package memory

import (
	"fmt"
	"slices"

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

// The subresources that are known.
const (
	subStatus   = "status"
	subApproval = "approval"
	subEviction = "eviction"
)

// kind is one resource and how it is treated.
type kind struct {
	schema.GroupVersionKind
	plural     string
	short      []string
	namespaced bool
	// subresources that are served.
	subresources []string
	// custom kinds come from a CustomResourceDefinition; structure is its schema.
	custom    bool
	structure *structuralschema.Structural
	// counts: metadata.generation is kept.
	counts bool
	// bornWithStatus: what a create says in status is kept.
	bornWithStatus bool
	// conditional: an update must name the resource version that it was made from.
	conditional bool
	// selectable fields, as dotted paths, besides name and namespace.
	selectable []string
	managers   map[string]*managers
}

func (k *kind) has(subresource string) bool { return slices.Contains(k.subresources, subresource) }

func (k *kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural}
}

// Catalog is a set of kinds. It does not change once made, and many servers may share one.
type Catalog struct {
	kinds  []*kind
	byPath map[schema.GroupVersionResource]*kind
	// byKind finds by group and kind, as owner references name things.
	byKind map[schema.GroupKind]*kind
}

// builtin are the kinds of Kubernetes itself that are served.
var builtin = []kind{
	{GroupVersionKind: core("Namespace"), plural: "namespaces", short: []string{"ns"}, subresources: []string{subStatus}},
	{GroupVersionKind: core("Node"), plural: "nodes", short: []string{"no"}, subresources: []string{subStatus}, bornWithStatus: true, selectable: []string{"spec.unschedulable"}},
	{GroupVersionKind: core("Pod"), plural: "pods", short: []string{"po"}, namespaced: true, counts: true, subresources: []string{subStatus, subEviction}, selectable: []string{"spec.nodeName", "status.phase"}},
	{GroupVersionKind: core("Secret"), plural: "secrets", namespaced: true, selectable: []string{"type"}},
	{GroupVersionKind: core("ConfigMap"), plural: "configmaps", short: []string{"cm"}, namespaced: true},
	{GroupVersionKind: core("Service"), plural: "services", short: []string{"svc"}, namespaced: true, subresources: []string{subStatus}},
	{GroupVersionKind: core("ServiceAccount"), plural: "serviceaccounts", short: []string{"sa"}, namespaced: true},
	{GroupVersionKind: core("Event"), plural: "events", short: []string{"ev"}, namespaced: true},
	{GroupVersionKind: core("PersistentVolume"), plural: "persistentvolumes", short: []string{"pv"}, subresources: []string{subStatus}},
	{GroupVersionKind: core("PersistentVolumeClaim"), plural: "persistentvolumeclaims", short: []string{"pvc"}, namespaced: true, subresources: []string{subStatus}},
	{GroupVersionKind: of("apps", "DaemonSet"), plural: "daemonsets", short: []string{"ds"}, namespaced: true, counts: true, subresources: []string{subStatus}},
	{GroupVersionKind: of("apps", "ReplicaSet"), plural: "replicasets", short: []string{"rs"}, namespaced: true, counts: true, subresources: []string{subStatus}},
	{GroupVersionKind: of("certificates.k8s.io", "CertificateSigningRequest"), plural: "certificatesigningrequests", short: []string{"csr"}, subresources: []string{subStatus, subApproval}, selectable: []string{"spec.signerName"}},
	{GroupVersionKind: of("coordination.k8s.io", "Lease"), plural: "leases", namespaced: true, conditional: true},
	{GroupVersionKind: of("events.k8s.io", "Event"), plural: "events", namespaced: true},
	{GroupVersionKind: of("policy", "PodDisruptionBudget"), plural: "poddisruptionbudgets", short: []string{"pdb"}, namespaced: true, counts: true, conditional: true, subresources: []string{subStatus}},
	{GroupVersionKind: of("rbac.authorization.k8s.io", "ClusterRole"), plural: "clusterroles"},
	{GroupVersionKind: of("rbac.authorization.k8s.io", "ClusterRoleBinding"), plural: "clusterrolebindings"},
	{GroupVersionKind: of("storage.k8s.io", "VolumeAttachment"), plural: "volumeattachments", subresources: []string{subStatus}},
	{GroupVersionKind: of("storage.k8s.io", "StorageClass"), plural: "storageclasses", short: []string{"sc"}},
}

func core(name string) schema.GroupVersionKind { return of("", name) }

func of(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

// NewCatalog gives the built-in kinds and those that the CustomResourceDefinitions among the objects define. Error: one
// of them cannot be read.
func NewCatalog(objects ...*unstructured.Unstructured) (*Catalog, error) {
	c := &Catalog{byPath: map[schema.GroupVersionResource]*kind{}, byKind: map[schema.GroupKind]*kind{}}
	types := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for i := range builtin {
		k := builtin[i]
		if err := c.add(&k, types); err != nil {
			return nil, err
		}
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

// addCustom adds the version of a custom kind that is stored.
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
	k := &kind{
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind},
		plural:           crd.Spec.Names.Plural, short: crd.Spec.Names.ShortNames,
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		custom:     true, structure: structure, counts: true, conditional: true, bornWithStatus: true,
	}
	if version.Subresources != nil && version.Subresources.Status != nil {
		k.subresources, k.bornWithStatus = []string{subStatus}, false
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

func (c *Catalog) add(k *kind, types typeConverter) error {
	var err error
	if k.managers, err = newManagers(k, types); err != nil {
		return fmt.Errorf("preparing %s: %w", k.Kind, err)
	}
	c.kinds = append(c.kinds, k)
	c.byPath[k.GroupVersion().WithResource(k.plural)] = k
	c.byKind[k.GroupKind()] = k
	return nil
}

// groupVersions gives those that are served, in order, the core's first.
func (c *Catalog) groupVersions() []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, k := range c.kinds {
		if !slices.Contains(out, k.GroupVersion()) {
			out = append(out, k.GroupVersion())
		}
	}
	return out
}

// resources lists what a group version holds, as discovery tells it.
func (c *Catalog) resources(gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	for _, k := range c.kinds {
		if k.GroupVersion() != gv {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.plural, Namespaced: k.namespaced, Kind: k.Kind, Verbs: verbs, ShortNames: k.short,
		})
		for _, sub := range k.subresources {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.plural + "/" + sub, Namespaced: k.namespaced, Kind: k.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	return list
}
