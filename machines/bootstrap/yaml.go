package bootstrap

import (
	"bytes"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
)

// toYAML writes a value as YAML. It does not break long lines, as sigs.k8s.io/yaml does.
func toYAML(value any) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	err := e.Encode(value)
	return out.Bytes(), err
}

// objectYAML writes a configuration as YAML, with the field names of its JSON form. It leaves out empty values, which some Go types cannot
// omit, and durations of zero, which the kubelet reads as its default.
func objectYAML(object any) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(fields, "logging") // its zero values are not empty, and not the kubelet's defaults
	return toYAML(prune(fields))
}

// prune removes null values, empty objects and durations of zero.
func prune(fields map[string]any) map[string]any {
	for key, value := range fields {
		inner, nested := value.(map[string]any)
		if value == nil || value == "0s" || nested && len(prune(inner)) == 0 {
			delete(fields, key)
		}
	}
	return fields
}
