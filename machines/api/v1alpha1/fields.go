package v1alpha1

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnknownFieldError reports a key that a document may not have.
//
// +kubebuilder:object:generate=false
type UnknownFieldError struct {
	// Path is the path of the document. Key is the key as the document spells it.
	Path, Key string
	// Nearest is the most similar known key; empty when none is similar.
	Nearest string
}

func (e *UnknownFieldError) Error() string {
	if e.Nearest == "" {
		return fmt.Sprintf("%s.%s: unknown field; remove it", e.Path, e.Key)
	}
	return fmt.Sprintf("%s.%s: unknown field; did you mean %s?", e.Path, e.Key, e.Nearest)
}

// ErrNotAnObject is the error about a document that is not a JSON object.
var ErrNotAnObject = errors.New("not a JSON object")

// Fields splits a JSON object into its fields, under their known spelling. Keys match regardless of case, as in Go's own decoder. Fields
// that are null or listed in ignored are left out. For each key that is neither in known nor in ignored, Fields also returns an
// *[UnknownFieldError], and for a document that is not an object [ErrNotAnObject]. Each error contains path. An empty document and null
// count as an empty object.
func Fields(path string, raw []byte, known, ignored []string) (fields map[string]json.RawMessage, wrong []error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil, []error{fmt.Errorf("%s: %w", path, ErrNotAnObject)}
	}
	fields = make(map[string]json.RawMessage, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name := Spelling(key, known)
		switch {
		case name == "" && Spelling(key, ignored) != "":
		case name == "":
			wrong = append(wrong, &UnknownFieldError{Path: path, Key: key, Nearest: strings.Join(Nearest(key, known, 1), "")})
		case fields[name] != nil:
			wrong = append(wrong, fmt.Errorf("%s.%s: given twice, in different spellings; keep one", path, name))
		case string(all[key]) != "null":
			fields[name] = all[key]
		}
	}
	return fields, wrong
}

// Spelling returns the known form of a key, regardless of the key's case. It returns "" when the key is unknown.
func Spelling(key string, known []string) string {
	i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) })
	if i < 0 {
		return ""
	}
	return known[i]
}

// IsUnset reports whether a JSON value asks for nothing: null, false, or an empty text, object or list. Programs such as
// machine-controller's webhook write such values into fields that nobody has set.
func IsUnset(value json.RawMessage) bool {
	return slices.Contains([]string{"null", "false", `""`, "{}", "[]"}, string(value))
}

// Nearest returns the known names that are similar to name, the most similar first, without duplicates. The parameter most limits their
// number. A name is similar when at most a third of its letters differ, regardless of case.
func Nearest(name string, known []string, most int) []string {
	changes := map[string]int{}
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d*3 <= max(len(k), len(name)) {
			changes[k] = d
		}
	}
	alike := slices.SortedFunc(maps.Keys(changes), func(a, b string) int {
		return cmp.Or(cmp.Compare(changes[a], changes[b]), cmp.Compare(a, b))
	})
	return alike[:min(len(alike), most)]
}

// distance returns how many letters must be inserted, deleted or replaced to turn a into b (Levenshtein distance).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := diagonal
			if a[i-1] != b[j-1] {
				replace++
			}
			diagonal = row[j]
			row[j] = min(replace, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
