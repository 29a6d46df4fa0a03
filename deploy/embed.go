// Package deploy holds the manifests that a cluster needs before drover runs in it, and applies them.
package deploy

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Manifests holds the folders of this package that are applied as they are: those of [Dirs], and the roles in control and target,
// which take the place of rbac when Machines and Nodes have clusters of their own.
//
//go:embed crds/*.yaml policies/*.yaml rbac/*.yaml control/rbac.yaml target/rbac.yaml
var Manifests embed.FS

//go:embed deployment.yaml
var deployment []byte

// AutoscalerFlags are the flags that drover recommends for cluster-autoscaler, one per line, each with its reason.
//
//go:embed cluster-autoscaler/flags
var AutoscalerFlags string

// Dirs are the folders in the order in which they are applied: policies refer to kinds that must exist, and require rights that
// a running drover must have by then.
var Dirs = []string{"crds", "rbac", "policies"}

// kustomization is the file that lists a folder's manifests for kubectl; it is not a manifest itself.
const kustomization = "kustomization.yaml"

// FieldManager is the field manager of [Apply]: that of kubectl, so that kubectl can continue where Apply has begun.
const FieldManager = "kubectl"

// establishTimeout is how long the API server may take to serve a kind that was just defined.
const establishTimeout = 60 * time.Second

// Objects parses the manifests of the named folders; none means all of [Dirs]. Files are in the order of their names, documents
// in the order of the file.
func Objects(dirs ...string) ([]*unstructured.Unstructured, error) {
	if len(dirs) == 0 {
		dirs = Dirs
	}
	var objects []*unstructured.Unstructured
	for _, dir := range dirs {
		files, err := fs.Glob(Manifests, path.Join(dir, "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", dir, err)
		}
		files = slices.DeleteFunc(files, func(file string) bool { return path.Base(file) == kustomization })
		if len(files) == 0 {
			return nil, fmt.Errorf("reading manifests: there is no folder %q, only %v", dir, Dirs)
		}
		for _, file := range files {
			found, err := decode(file)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			objects = append(objects, found...)
		}
	}
	return objects, nil
}

func decode(file string) ([]*unstructured.Unstructured, error) {
	raw, err := Manifests.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw)+1)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Args returns the arguments that deployment.yaml starts drover with.
func Args() ([]string, error) {
	object := &appsv1.Deployment{}
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(deployment), len(deployment)+1).Decode(object); err != nil {
		return nil, fmt.Errorf("reading deployment.yaml: %w", err)
	}
	for _, c := range object.Spec.Template.Spec.Containers {
		return c.Args, nil
	}
	return nil, errors.New("reading deployment.yaml: its first object is not a Deployment with a container")
}

// Apply applies the named folders (none means all of [Dirs]) by server-side apply, taking over fields that others set. It
// returns once every defined kind is served. Applying again changes nothing.
func Apply(ctx context.Context, c client.Client, dirs ...string) error {
	objects, err := Objects(dirs...)
	if err != nil {
		return err
	}
	for _, object := range objects {
		name := object.GetKind() + " " + object.GetName()
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(FieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s: %w", name, err)
		}
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if err := awaitEstablished(ctx, c, object.GetName()); err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", name, err)
		}
	}
	return nil
}

func awaitEstablished(ctx context.Context, c client.Client, name string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err := c.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, crd); err != nil {
			return false, err
		}
		return established(crd), nil
	})
}

// established reports whether the kind is served under all its names. Its objects can be listed from then on; a discovery cache
// may learn of it later.
func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	have := map[apiextensionsv1.CustomResourceDefinitionConditionType]bool{}
	for _, condition := range crd.Status.Conditions {
		have[condition.Type] = condition.Status == apiextensionsv1.ConditionTrue
	}
	return have[apiextensionsv1.Established] && have[apiextensionsv1.NamesAccepted]
}
