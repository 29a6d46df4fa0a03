package machinecontroller

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// list returns all objects of a kind in a namespace, decoded into one of machine-controller's
// types.
func list[T any](ctx context.Context, c client.Client, kind, namespace string) ([]*T, error) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: kind + "List"})
	if err := c.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing %ss: %w", kind, err)
	}
	out := make([]*T, len(all.Items))
	for i := range all.Items {
		out[i] = new(T)
		if err := convert(all.Items[i].Object, out[i]); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", kind, all.Items[i].GetName(), err)
		}
	}
	return out, nil
}

// whole returns an object of machine-controller's types in the form in which it is sent.
func whole(o metav1.Object) (*unstructured.Unstructured, error) {
	sent := &unstructured.Unstructured{}
	return sent, convert(o, &sent.Object)
}

// convert encodes a value as JSON and decodes it into a value of another type.
func convert(from, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// update writes a whole object and stores the new resource version in o.
func update(ctx context.Context, c client.Client, o metav1.Object) error {
	sent, err := whole(o)
	if err == nil {
		err = c.Update(ctx, sent)
	}
	if err != nil {
		return fmt.Errorf("updating %s: %w", o.GetName(), err)
	}
	o.SetResourceVersion(sent.GetResourceVersion())
	return nil
}

// updateStatus writes the whole status of a set or a deployment.
func updateStatus(ctx context.Context, c client.Client, o metav1.Object) error {
	sent, err := whole(o)
	if err == nil {
		err = c.Status().Update(ctx, sent)
	}
	if err != nil {
		return fmt.Errorf("updating the status of %s: %w", o.GetName(), err)
	}
	o.SetResourceVersion(sent.GetResourceVersion())
	return nil
}

// create creates an object of a kind.
func create(ctx context.Context, c client.Client, kind string, o metav1.Object) error {
	sent, err := whole(o)
	if err != nil {
		return err
	}
	sent.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: kind})
	if err := c.Create(ctx, sent); err != nil {
		return fmt.Errorf("creating a %s: %w", kind, err)
	}
	return nil
}

// remove deletes an object of a kind.
func remove(ctx context.Context, c client.Client, kind string, o metav1.Object) error {
	gone := &unstructured.Unstructured{}
	gone.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: kind})
	gone.SetNamespace(o.GetNamespace())
	gone.SetName(o.GetName())
	if err := c.Delete(ctx, gone); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", kind, o.GetName(), err)
	}
	return nil
}
