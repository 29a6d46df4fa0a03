package classprotection

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// secretsOf returns the Secrets that a class names. A reference of the class without a namespace means the class's own namespace. The
// provider spec may name only Secrets in the class's own namespace; others do not count.
func secretsOf(class *v1alpha1.MachineClass) []types.NamespacedName {
	var keys []types.NamespacedName
	add := func(key types.NamespacedName) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, ref := range []*corev1.SecretReference{class.SecretRef, class.CredentialsSecretRef} {
		if ref == nil || ref.Name == "" {
			continue
		}
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if key.Namespace == "" {
			key.Namespace = class.Namespace
		}
		add(key)
	}
	if spec := class.ProviderSpec; spec != nil {
		var document any
		// A document that is not JSON names no Secret; the Machines that use it report the error.
		if json.Unmarshal(spec.Raw, &document) == nil {
			secretsIn(document, class.Namespace, add)
		}
	}
	return keys
}

// secretsIn finds the references {secretKeyRef: {namespace, name, key}} in a document. Keys match regardless of case.
func secretsIn(document any, namespace string, add func(types.NamespacedName)) {
	switch d := document.(type) {
	case []any:
		for _, item := range d {
			secretsIn(item, namespace, add)
		}
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(d)) {
			ref, ok := d[field].(map[string]any)
			if !ok || !strings.EqualFold(field, "secretKeyRef") {
				secretsIn(d[field], namespace, add)
				continue
			}
			if key := (types.NamespacedName{Namespace: text(ref, "namespace"), Name: text(ref, "name")}); key.Name != "" && key.Namespace == namespace {
				add(key)
			}
		}
	}
}

// text returns a string field of an object. Its key matches regardless of case.
func text(object map[string]any, name string) string {
	for key, value := range object {
		if s, ok := value.(string); ok && strings.EqualFold(key, name) {
			return s
		}
	}
	return ""
}
