package bootstrap

import (
	"bytes"
	"encoding/json"
	"math"

	"go.yaml.in/yaml/v3"
)

// toFields gives a value's JSON form as maps and lists. Numbers without a fraction are whole numbers.
func toFields(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	return whole(fields), nil
}

// whole makes numbers without a fraction integers: 1e+06 is none for a kubelet.
func whole(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = whole(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = whole(inner)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return value
}

// toYAML writes a value, whose fields are named for JSON, as YAML. (sigs.k8s.io/yaml does the same by way of a YAML parser,
// at thrice the time; a document is written for every Machine.)
func toYAML(value any) ([]byte, error) {
	fields, err := toFields(value)
	if err != nil {
		return nil, err
	}
	return encode(fields)
}

func encode(fields any) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(fields); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
