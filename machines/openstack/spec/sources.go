package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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

	merged
	reader *Reader
	// known are the results of all reads of Secrets and ConfigMaps so far, by references without a key.
	known map[reference]contents
	// refused are the errors about fields of the documents.
	refused []error
}

// merged is the one document that all layers of a provider spec make.
type merged struct {
	object Object
	// configured holds the credentials of the configured cloud at the time of Read.
	configured *client.Credentials
	// layers are in order of precedence: Machine, class, Cluster, configured cloud.
	layers []layer
	// fields has the value of each field from the highest layer that has the field, by the field's first name.
	fields map[string]value
	// absent are the fields about credentials that are treated as empty because they cannot be read, each with the reason in err.
	absent []value
	// noted are the warnings that have been found so far.
	noted []string
}

// Warnings returns one sentence for each part of the sources that is accepted without effect, sorted and without duplicates. Spec
// and Access add more while they read.
func (s *Sources) Warnings() []string {
	slices.Sort(s.noted)
	return slices.Compact(s.noted)
}

// note adds a warning.
func (m *merged) note(text string) { m.noted = append(m.noted, text) }

// layer is one source of a provider spec.
type layer struct {
	// source is the object and the path of the document in it, for messages. Its namespace is empty for the configured cloud.
	source, namespace string
	// endpoint is the layer's own identityEndpoint.
	endpoint value
}

// merge adds a layer below the others: each field that no higher layer has gets the layer's value. values has the values by the names that
// the layer has for the fields.
func (m *merged) merge(source, namespace string, values map[string]value) {
	for _, names := range specFields {
		if _, taken := m.fields[names[0]]; taken {
			continue
		}
		if v, taken := m.valueOf(names, values); taken {
			m.fields[names[0]] = v
		}
	}
	m.layers = append(m.layers, layer{source: source, namespace: namespace, endpoint: values["identityEndpoint"]})
}

// valueOf returns the value of a field in the layer that is being merged. taken reports that no lower layer is read. This is also so for a
// field that is treated as empty, because it cannot be read.
func (m *merged) valueOf(names []string, values map[string]value) (got value, taken bool) {
	for _, name := range names {
		v := values[name]
		v.field, v.from = name, len(m.layers)
		for _, key := range v.unknown {
			m.note(v.at + "." + key + ": unknown field, which has no effect; remove it")
		}
		cause, tolerable := m.tolerable(v.err)
		switch {
		case tolerable && isCredential(names[0]):
			v.err = cause
			m.absent, taken = append(m.absent, v), true
		case v.err != nil:
			return v, true
		case !v.given():
		case !got.given():
			got, taken = v, true
		case got.text == v.text:
		case m.object.Lenient, isProject(name):
			// machine-controller has an order for the names of a project, and ignores the later ones.
			m.note(v.at + ": is ignored, because it differs from " + got.field)
		default:
			got.err = invalid(v.at, "%s conflicts with %s %s; the two fields have the same meaning: keep one of them", v.shown(), got.field, got.shown())
			return got, true
		}
	}
	return got, taken
}

// tolerable reports whether an error about a credential becomes a warning, so that the credential is treated as empty. This is so when a
// reference points to a missing key or object, or when reading is lenient and the field is invalid. cause is the reason that the warning
// shows.
func (m *merged) tolerable(err error) (cause error, ok bool) {
	var missing *missingReference
	if errors.As(err, &missing) {
		return missing, true
	}
	return err, m.object.Lenient && fault.Is(err, fault.Invalid)
}

// hidden returns the values that came from a Secret or ConfigMap, each with the text that messages show instead; of the fields about
// credentials, or of all others. It returns nil when there is none.
func (m *merged) hidden(credentials bool) (all map[string]string) {
	for field, v := range m.fields {
		for _, t := range append(slices.Clip(v.list), v) {
			if t.ref != nil && isCredential(field) == credentials {
				if all == nil {
					all = map[string]string{}
				}
				all[t.text], all[strings.Trim(strconv.Quote(t.text), `"`)] = t.shown(), t.shown()
			}
		}
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
