package spec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// referenceKind is the kind of object that a reference points to.
type referenceKind string

const (
	secretKind    referenceKind = "Secret"
	configMapKind referenceKind = "ConfigMap"
)

// reference is one key of a Secret or ConfigMap.
type reference struct {
	Kind      referenceKind `json:"-"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Key       string        `json:"key"`
}

func (r *reference) complete() bool {
	return r != nil && r.Namespace != "" && r.Name != "" && r.Key != ""
}

func (r *reference) String() string {
	return fmt.Sprintf("%s, key %s", r.object(), r.Key)
}

// value returns the text that messages show instead of the referenced value.
func (r *reference) value() string { return "the value of " + r.String() }

// object returns the kind and name of the Secret or ConfigMap, for messages.
func (r *reference) object() string {
	return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name)
}

// value is a string of a provider spec, or a reference to one. The zero value is unset.
type value struct {
	text string
	ref  *reference
}

// missingReference is the cause of an error about a reference to a key or object that does not exist.
type missingReference struct {
	ref *reference
	// object is true when the Secret or ConfigMap itself does not exist.
	object bool
}

func (m *missingReference) Error() string {
	if m.object {
		return m.ref.object() + " does not exist"
	}
	return m.ref.object() + " has no key " + m.ref.Key
}

func (v value) unset() bool { return v.text == "" && v.ref == nil }

// parseValue parses a string or reference: a plain scalar, {value}, {secretKeyRef} or {configMapKeyRef}. A Secret takes precedence
// over a ConfigMap, and a ConfigMap over a value. A reference needs namespace, name and key; an incomplete reference without a
// value is an error. null and "" are unset.
func parseValue(raw json.RawMessage) (value, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return value{}, nil
	}
	switch raw[0] {
	case '{':
		return parseReference(raw)
	case '[':
		return value{}, fmt.Errorf("is a list; use a string or a reference")
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return value{text: text}, err
	default:
		return value{text: string(raw)}, nil
	}
}

func parseReference(raw json.RawMessage) (value, error) {
	fields, err := v1alpha1.Fields("reference", raw, []string{"value", "secretKeyRef", "configMapKeyRef"}, nil)
	if err != nil {
		return value{}, err
	}
	incomplete := ""
	for _, kind := range []struct {
		field string
		kind  referenceKind
	}{{"secretKeyRef", secretKind}, {"configMapKeyRef", configMapKind}} {
		part, ok := fields[kind.field]
		if !ok {
			continue
		}
		ref := &reference{Kind: kind.kind}
		if err := json.Unmarshal(part, ref); err != nil {
			return value{}, fmt.Errorf("%s: %w", kind.field, err)
		}
		if ref.complete() {
			return value{ref: ref}, nil
		}
		if *ref != (reference{Kind: kind.kind}) {
			incomplete = kind.field
		}
	}
	plain, err := parseValue(fields["value"])
	if err == nil && plain.unset() && incomplete != "" {
		return value{}, fmt.Errorf("%s needs namespace, name and key", incomplete)
	}
	return plain, err
}

// dereference returns the text of a reference.
type dereference func(ctx context.Context, ref *reference) (string, error)

// resolve returns the value's text; empty when it is unset. It removes line breaks at the end, because a Secret that was created
// from a file often ends with a line break.
func (v value) resolve(ctx context.Context, get dereference) (string, error) {
	text := v.text
	if v.ref != nil {
		var err error
		if text, err = get(ctx, v.ref); err != nil {
			return "", err
		}
	}
	return strings.TrimRight(text, "\r\n"), nil
}
