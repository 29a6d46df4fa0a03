package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Sources are the documents and Secrets of one provider spec, with all references followed.
type Sources struct {
	// Config is the provider config of the highest source; its empty fields are filled in from the lower ones.
	Config *v1alpha1.ProviderConfig
	// Unreadable is the error about the first document that is not a JSON object; nil when there is none. It is set only when
	// reading is lenient. The cloud and the credentials in that document are unknown.
	Unreadable *fault.Error

	reader *Reader
	object Object
	// configured holds the credentials of the configured cloud at the time of Read.
	configured *client.Credentials
	// known are the results of all reads of Secrets and ConfigMaps so far, by references without a key.
	known map[reference]contents
	// layers are in order of precedence (Machine, class, Cluster, configured cloud), with all references resolved.
	layers []layer
	// origin records the values that the messages of what is read last, the spec or the credentials, must not show.
	origin provenance
	// noted are the warnings that have been found so far, and refused the errors about fields of the documents.
	noted   []string
	refused []error
}

// Warnings returns one sentence for each part of the sources that is accepted without effect, sorted and without duplicates. Spec
// and Access add more while they read.
func (s *Sources) Warnings() []string {
	slices.Sort(s.noted)
	return slices.Compact(s.noted)
}

// note adds a warning.
func (s *Sources) note(text string) { s.noted = append(s.noted, text) }

// layer is one source of a provider spec. A field that is empty in one layer is read from the next one.
type layer struct {
	// source is the object and the path of the document in it, for messages. Its namespace is empty for the configured cloud.
	source, namespace string
	// where returns the name of a field of the layer, for messages.
	where  func(field string) string
	values map[string]value
}

// value returns the value of a field in one layer. It records its warnings, and what messages must not show of it.
func (s *Sources) value(i int, field string) value {
	v := s.layers[i].values[field]
	for _, key := range v.unknown {
		s.note(s.layers[i].where(field) + "." + key + ": unknown field, which has no effect; remove it")
	}
	for _, t := range v.texts {
		s.origin.add(field, t)
	}
	return v
}

// text returns the highest layer's value of a field with aliases. It returns an error for aliases that disagree within a layer.
func (s *Sources) text(names ...string) (found, error) {
	for i := range s.layers {
		if got, err := s.textIn(i, names...); err != nil || got.given() {
			return got, err
		}
	}
	return found{from: -1, field: names[0]}, nil
}

func (s *Sources) textIn(i int, names ...string) (found, error) {
	got := found{from: -1}
	for _, name := range names {
		v := s.value(i, name)
		switch {
		case v.err != nil:
			return found{from: -1, field: name}, v.err
		case len(v.texts) == 0:
		case !got.given():
			got = v.texts[0]
			got.from, got.field = i, name
		case got.text == v.texts[0].text:
		case s.object.Lenient, isProject(name):
			// machine-controller has an order for the names of a project, and ignores the later ones.
			s.note(s.layers[i].where(name) + ": is ignored, because it differs from " + got.field)
		default:
			return got, invalid(s.layers[i].where(name), "%s conflicts with %s %s; the two fields have the same meaning: keep one of them",
				v.texts[0].shown(), got.field, got.shown())
		}
	}
	return got, nil
}

// highest returns the value of a field in the highest layer that has it, and the index of that layer; -1 when no layer has the field.
func (s *Sources) highest(name string) (value, int) {
	for i := range s.layers {
		if v := s.value(i, name); v.err != nil || len(v.texts)+len(v.pairs) > 0 {
			return v, i
		}
	}
	return value{}, -1
}

// list returns the texts of a list.
func (v value) list() (all []string) {
	for _, t := range v.texts {
		all = append(all, t.text)
	}
	return all
}

// invalid returns an error about a field or a document. where is its name.
func invalid(where, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: %s", where, fmt.Sprintf(format, args...))
}

// about puts where before an error. An error of package fault keeps its class; any other error gets the class Invalid.
func about(where string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return reworded(err, where+": "+known.Message)
	}
	return invalid(where, "%v", err)
}

// reworded returns an error with another message and the same class. Its cause is err.
func reworded(err error, message string) error {
	e := *fault.Of(err)
	e.Message, e.Err = fault.Line(message), err
	return &e
}

// Together returns one error with the texts of all errors, so that nobody has to correct a spec error by error. It has the class of the
// first. It leaves out nil, and returns nil when no other error is given.
func Together(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	var texts []string
	for _, err := range errs {
		texts = append(texts, fault.Of(err).Message)
	}
	all := *fault.Of(errs[0])
	all.Message, all.Err = fault.Line(strings.Join(unique(texts), "; ")), errors.Join(errs...)
	return &all
}

// unique returns the texts without duplicates, in the order of their first appearance.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
