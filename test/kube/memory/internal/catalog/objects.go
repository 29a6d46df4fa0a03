package catalog

import (
	"bytes"
	"fmt"

	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Object is an API object in the form in which it is transferred.
type Object = unstructured.Unstructured

// Read decodes an object that a client sent. Built-in kinds are converted through their Go types, as in the real
// server; custom kinds are pruned by their schema.
func (k *Kind) Read(body []byte) (*Object, error) {
	if len(bytes.TrimSpace(body)) > 0 && bytes.TrimSpace(body)[0] != '{' {
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
		}
		body = converted
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest("couldn't get version/kind; json parse error: " + err.Error())
	}
	return k.Take(content)
}

// Take returns an object of the kind with the given content.
func (k *Kind) Take(content map[string]any) (*Object, error) {
	o := &Object{Object: content}
	if got := o.GroupVersionKind(); got.Kind != "" && got != k.GroupVersionKind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized: %s in the place of %s", got, k.GroupVersionKind))
	}
	o.SetGroupVersionKind(k.GroupVersionKind)
	return o, nil
}

// Blank returns an empty object of the kind.
func (k *Kind) Blank() (*Object, error) {
	o := &Object{}
	o.SetGroupVersionKind(k.GroupVersionKind)
	if k.Custom {
		return o, nil
	}
	return k.Settle(o)
}

// Settle converts an object into the form in which its kind is stored.
func (k *Kind) Settle(o *Object) (*Object, error) {
	if k.Custom {
		structuralpruning.Prune(o.Object, k.structure, true)
		return o, nil
	}
	typed, err := scheme.Scheme.New(k.GroupVersionKind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", k.Kind, k.Version, k.Kind, err))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	out := &Object{Object: content}
	out.SetGroupVersionKind(k.GroupVersionKind)
	return out, nil
}
