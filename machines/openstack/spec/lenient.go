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

// checkProvider returns an error when cloudProvider names another cloud than OpenStack. It is called before the keys of the
// document are read: otherwise the error would be about keys that drover does not know. If a source of higher precedence has set
// cloudProvider, that value counts; for example, a Machine has precedence over its MachineClass. For a Machine with an OpenStack
// server, checkProvider only adds a warning, because the Machine's resources must still be deleted.
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

// readable returns the document unchanged, unless reading is lenient and parse refuses the document. In that case it removes the
// fields that parse refuses, and adds a warning for each. If the document is not a JSON object, it returns an empty document,
// and records that in Unreadable.
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
