package bootstrap

import (
	"bytes"
	"encoding/json"
	"math"

	"go.yaml.in/yaml/v3"
	"k8s.io/utils/lru"
)

// mostTexts is how many parts of user data are cached. That is enough for the parts of about four node groups.
const mostTexts = 64

// texts caches parts of user data that many Machines have in common. Writing YAML is most of the cost of user data.
var texts = lru.New(mostTexts)

// remembered returns the cached text for the key, or writes and caches it. Callers must not change the text.
func remembered(key any, write func() ([]byte, error)) ([]byte, error) {
	if known, ok := texts.Get(key); ok {
		if text, ok := known.([]byte); ok {
			return text, nil
		}
	}
	text, err := write()
	if err == nil {
		texts.Add(key, text)
	}
	return text, err
}

// toFields returns the JSON form of a value as maps and lists. Numbers without a fraction are whole numbers.
func toFields(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return fieldsOf(raw)
}

// fieldsOf returns a JSON document as maps and lists. Numbers without a fraction are whole numbers.
func fieldsOf(raw []byte) (any, error) {
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	return whole(fields), nil
}

// whole turns numbers without a fraction into integers, because a kubelet does not read 1e+06 as an integer.
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

// toYAML writes a value as YAML, with the field names of its JSON form. sigs.k8s.io/yaml takes three times as long, because it parses YAML
// to do so. The time matters because a document is written for every Machine.
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
