package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/fault"
)

// Name is the cloudProvider of the provider specs of this package.
const Name = "openstack"

// checkProvider refuses the document of another cloud before its keys are read, because each of the keys would be unknown. The
// cloudProvider of a higher source takes precedence. A Machine with an OpenStack server is accepted, because its resources must
// still be deleted.
func (s *Sources) checkProvider(path string, raw []byte) error {
	provider := s.Config.CloudProvider
	if provider == "" {
		provider = textOf(raw, "cloudProvider")
	}
	if provider == "" || provider == Name {
		return nil
	}
	text := fmt.Sprintf("%s: cloudProvider %s is not supported by drover; supported: %s", path, provider,
		strings.Join(s.reader.options.CloudProviders, ", "))
	if s.hasServer {
		s.note(text)
		return nil
	}
	return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s", text)
}

// textOf returns the string value of a key of a JSON object, ignoring the key's case; empty when there is none.
func textOf(raw []byte, name string) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return ""
	}
	for key, value := range all {
		var text string
		if strings.EqualFold(key, name) && json.Unmarshal(value, &text) == nil {
			return text
		}
	}
	return ""
}

// readable returns the document unchanged or, when reading is lenient, without the fields that parse refuses, with a warning for
// each. For a document that is not a JSON object it returns an empty document, and records that in Unreadable.
func (s *Sources) readable(path string, raw []byte, parse func(raw []byte) error) []byte {
	if !s.lenient || parse(raw) == nil {
		return raw
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		if s.Unreadable == nil {
			s.Unreadable = fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: not a JSON object", path)
		}
		s.note(path + ": not a JSON object")
		return nil
	}
	kept := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		kept[key] = all[key]
		if err := parse(encoded(kept)); err != nil {
			delete(kept, key)
			s.note(err.Error())
		}
	}
	return encoded(kept)
}

// encoded returns the fields as a JSON object.
func encoded(fields map[string]json.RawMessage) []byte {
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return raw
}
