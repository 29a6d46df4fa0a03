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
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Manifests holds the folders of this package that are applied unchanged: the folders in [Dirs], and the folders control and
// target. These two replace the folder rbac when Machines and Nodes are in different clusters.
//
//go:embed crds/*.yaml policies/*.yaml rbac/*.yaml control/rbac.yaml target/rbac.yaml
var Manifests embed.FS

//go:embed deployment.yaml
var deployment []byte

// AutoscalerFlags are the flags that drover recommends for cluster-autoscaler, one per line, each with its reason.
//
//go:embed cluster-autoscaler/flags
var AutoscalerFlags string

// Dirs are the folders in the order in which they are applied. The policies come last: they refer to kinds that must exist by
// then, and require permissions that a running drover must already have.
var Dirs = []string{"crds", "rbac", "policies"}

// kustomization is the file that lists a folder's manifests for kubectl. It is not a manifest itself.
const kustomization = "kustomization.yaml"

// FieldManager is the field manager of [Apply]. It is kubectl's field manager, so that kubectl can continue what Apply has begun.
const FieldManager = "kubectl"

// establishTimeout is how long the API server may take to serve a kind whose CRD was just created.
const establishTimeout = 60 * time.Second

// Objects parses the manifests in the named folders; without names, in all of [Dirs]. Files are sorted by name, and the documents
// of a file keep their order.
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

// Args returns the arguments with which deployment.yaml starts drover.
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

// Apply applies the named folders (without names, all of [Dirs]) by server-side apply, and takes over the fields of other field
// managers. It returns when the API server serves every kind of the CRDs. Applying again changes nothing.
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
		// From then on the API server serves the kind under all its names, so that its objects can be listed; a discovery cache may learn of
		// the kind later.
		return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted), nil
	})
}
