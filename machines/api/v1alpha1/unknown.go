package v1alpha1

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// mostUnknown is how many unknown fields of an object are remembered, and longestUnknown how many bytes of the path of each.
const mostUnknown, longestUnknown = 20, 200

// former are the fields that machine-controller had once, by their path in a Machine's spec.
var former = []string{"roles", "versions.containerRuntime"}

// UnmarshalJSON decodes a Machine's spec as the API server sends it, and records in Unknown the fields that the type does not have.
func (s *MachineSpec) UnmarshalJSON(raw []byte) (err error) {
	type plain MachineSpec
	s.Unknown, err = decode(raw, (*plain)(s))
	return err
}

// UnmarshalJSON decodes a set's spec, and records in Unknown the fields that the type does not have, outside of the Machine's spec.
func (s *MachineSetSpec) UnmarshalJSON(raw []byte) (err error) {
	type plain MachineSetSpec
	s.Unknown, err = decode(raw, (*plain)(s))
	return err
}

// UnmarshalJSON decodes a deployment's spec, and records in Unknown the fields that the type does not have, outside of the Machine's spec.
func (s *MachineDeploymentSpec) UnmarshalJSON(raw []byte) (err error) {
	type plain MachineDeploymentSpec
	s.Unknown, err = decode(raw, (*plain)(s))
	return err
}

// decode decodes raw as client-go does, and returns the paths of the fields that the type of into does not have.
func decode(raw []byte, into any) (unknown []string, err error) {
	strict, err := kjson.UnmarshalStrict(raw, into, kjson.DisallowUnknownFields)
	for _, e := range strict {
		var field kjson.FieldError
		if errors.As(e, &field) && len(unknown) < mostUnknown {
			path := field.FieldPath()
			unknown = append(unknown, strings.Clone(path[:min(len(path), longestUnknown)]))
		}
	}
	return unknown, err
}

// WithoutEffect returns a sentence for each field that is set in a Machine's spec and that drover does not use. path is the path of the
// spec.
func (s *MachineSpec) WithoutEffect(path string) []string {
	texts := unknownFields(path, s.Unknown)
	if s.ConfigSource != nil {
		texts = append(texts, path+".configSource: has no effect; it may be removed")
	}
	if s.Versions.ControlPlane != "" {
		texts = append(texts, path+".versions.controlPlane: has no effect; it may be removed")
	}
	return texts
}

// WithoutEffect returns a sentence for each field that is set in a deployment's spec, or in its template, and that drover does not use.
func (s *MachineDeploymentSpec) WithoutEffect() []string {
	return append(unknownFields("spec", s.Unknown), s.Template.withoutEffect()...)
}

// WithoutEffect returns a sentence for each field that is set in a set's spec, or in its template, and that drover does not use.
func (s *MachineSetSpec) WithoutEffect() []string {
	return append(unknownFields("spec", s.Unknown), s.Template.withoutEffect()...)
}

func (t *MachineTemplateSpec) withoutEffect() []string {
	texts := t.Spec.WithoutEffect("spec.template.spec")
	if t.Spec.Metadata.Name != "" {
		texts = append(texts, "spec.template.spec.metadata.name: has no effect, because each Machine has a name of its own; it may be removed")
	}
	return texts
}

func unknownFields(path string, unknown []string) (texts []string) {
	for _, field := range unknown {
		why := "unknown field, which has no effect; remove it"
		if slices.Contains(former, field) {
			why = "has no effect any more; it may be removed"
		}
		texts = append(texts, fmt.Sprintf("%s.%s: %s", path, field, why))
	}
	return texts
}
