package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// set writes one value into an object.
func set(o *catalog.Object, value any, path ...string) error {
	at := o.Object
	for _, part := range path[:len(path)-1] {
		next, ok := at[part].(map[string]any)
		if at[part] != nil && !ok {
			return apierrors.NewBadRequest("the field " + part + " is not an object")
		}
		if !ok {
			next = map[string]any{}
			at[part] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
	return nil
}

// same reports whether two states of an object differ at most in the resource version and in the times in
// managedFields.
func same(a, b *catalog.Object) bool {
	return equality.Semantic.DeepEqual(timeless(a), timeless(b))
}

// timeless returns the content of an object without the resource version and the times in managedFields. It shares
// most of the content with the object.
func timeless(o *catalog.Object) map[string]any {
	out := maps.Clone(o.Object)
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	if entries, ok := metadata["managedFields"].([]any); ok {
		entries = slices.Clone(entries)
		for i := range entries {
			if entry, ok := entries[i].(map[string]any); ok {
				entry = maps.Clone(entry)
				delete(entry, "time")
				entries[i] = entry
			}
		}
		metadata["managedFields"] = entries
	}
	out["metadata"] = metadata
	return out
}

// take copies a top-level field from one object to another. When the first object does not have the field, take
// removes it from the other.
func take(to, from *catalog.Object, name string) {
	if value, ok := from.Object[name]; ok {
		to.Object[name] = value
		return
	}
	delete(to.Object, name)
}

// errModified is the cause of a conflict between two writers.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

func wrongUID(given string, old *store.Record) error {
	return fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", given, old.Object.GetUID())
}
