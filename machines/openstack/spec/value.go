package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// object returns the kind and name of the Secret or ConfigMap, for messages.
func (r *reference) object() string { return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name) }

func (r *reference) String() string { return r.object() + ", key " + r.Key }

// value returns the text that messages show instead of the referenced value.
func (r *reference) value() string { return "the value of " + r.String() }

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

// value is what a field has in one source: a text, a list, or pairs. The zero value is unset.
type value struct {
	text string
	// ref is the key of the Secret or ConfigMap that the text was read from; nil when it was in a document.
	ref *reference
	// list are the texts of a list that are not empty.
	list  []value
	pairs map[string]string
	// unknown are the keys of an object that neither a value nor a reference has. machine-controller ignores them.
	unknown []string
	// err is why the field cannot be read; nil when it can.
	err error
	// field is the name under which the layer has the field, at the name for messages, and from the index of the layer.
	field, at string
	from      int
}

func (v value) given() bool { return v.text != "" || len(v.list)+len(v.pairs) > 0 }

// shown returns what a message shows for the text: the text in quotes or, if it came from a Secret or ConfigMap, the reference to it.
func (v value) shown() string {
	if v.ref != nil {
		return v.ref.value()
	}
	return strconv.Quote(v.text)
}

// texts returns the texts of a list.
func (v value) texts() (all []string) {
	for _, t := range v.list {
		all = append(all, t.text)
	}
	return all
}

// dereference returns the text of a reference.
type dereference func(ref *reference) (string, error)

// readValue reads a field of a document, and follows its references. name is the field's name, and at its name in messages.
func readValue(name, at string, raw json.RawMessage, get dereference) (v value) {
	f := forms[name]
	switch {
	case f.pairs && raw[0] != '[':
		if json.Unmarshal(raw, &v.pairs) != nil {
			v.err = invalid(at, "is neither a map of strings nor a list of strings; use one of them")
		}
	case f.list:
		v = readList(at, raw, get)
	case f.boolean && raw[0] != '{' && raw[0] != '[' && string(raw) != "true" && string(raw) != "false":
		v.err = invalid(at, "%s is not a boolean; use true or false without quotes", raw)
	default:
		var err error
		if v, err = readText(raw, get); err != nil {
			v.err = about(at, err)
		} else if v.given() && f.fits != nil && !f.fits(v.text) {
			v.err = invalid(at, "%s %s", v.shown(), f.says)
		}
	}
	v.at = at
	return v
}

// readList reads a list of texts and references.
func readList(at string, raw json.RawMessage, get dereference) (all value) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return value{err: invalid(at, "is not a list; use a list of names or IDs")}
	}
	for n, item := range items {
		v, err := readText(item, get)
		if err != nil {
			return value{err: about(fmt.Sprintf("%s[%d]", at, n), err)}
		}
		if all.unknown = append(all.unknown, v.unknown...); v.given() {
			all.list = append(all.list, v)
		}
	}
	return all
}

// readText reads a plain scalar, or an object with a reference or a value. null and "" are unset.
func readText(raw json.RawMessage, get dereference) (value, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return value{}, nil
	case raw[0] == '[':
		return value{}, errors.New("is a list; use a string or a reference")
	case raw[0] == '{':
		return readObject(raw, get)
	case raw[0] == '"':
		var plain string
		err := json.Unmarshal(raw, &plain)
		return textValue(plain, nil), err
	}
	return textValue(string(raw), nil), nil
}

// textValue returns a text as a value. It removes line breaks at the end, because a Secret that was created from a file often ends with a
// line break.
func textValue(plain string, ref *reference) value {
	return value{text: strings.TrimRight(plain, "\r\n"), ref: ref}
}

// readObject reads {secretKeyRef}, {configMapKeyRef} or {value}, in this order of precedence. A reference needs namespace, name and key;
// an incomplete reference without a value is an error.
func readObject(raw json.RawMessage, get dereference) (value, error) {
	keys := []string{"secretKeyRef", "configMapKeyRef", "value"}
	unknown := otherKeys(raw, keys...)
	fields, wrong := v1alpha1.Fields("reference", raw, keys, unknown)
	if len(wrong) > 0 {
		return value{}, wrong[0]
	}
	incomplete := ""
	for i, kind := range []referenceKind{secretKind, configMapKind} {
		field, ref := keys[i], &reference{}
		if fields[field] == nil {
			continue
		}
		if err := json.Unmarshal(fields[field], ref); err != nil {
			return value{}, fmt.Errorf("%s: %w", field, err)
		}
		if ref.Namespace != "" && ref.Name != "" && ref.Key != "" {
			for _, key := range otherKeys(fields[field], objectReference...) {
				unknown = append(unknown, field+"."+key)
			}
			ref.Kind = kind
			plain, err := get(ref)
			v := textValue(plain, ref)
			v.unknown = unknown
			return v, err
		}
		if *ref != (reference{}) {
			incomplete = field
		}
	}
	v, err := readText(fields["value"], get)
	if err == nil && !v.given() && incomplete != "" {
		err = fmt.Errorf("%s needs namespace, name and key", incomplete)
	}
	v.unknown = append(v.unknown, unknown...)
	return v, err
}

// objectReference are the keys of a reference. Those after the first three have no effect, but programs fill them.
var objectReference = []string{"namespace", "name", "key", "kind", "apiVersion", "uid", "resourceVersion", "fieldPath"}

// otherKeys returns the keys of a JSON object that are not known and whose value is not null, sorted.
func otherKeys(raw json.RawMessage, known ...string) (other []string) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if v1alpha1.Spelling(key, known) == "" && string(all[key]) != "null" {
			other = append(other, key)
		}
	}
	return other
}
