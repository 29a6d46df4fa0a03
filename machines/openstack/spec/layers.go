package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// layer is one source of a provider spec. A field that is empty in one layer is read from the next one.
type layer struct {
	// source is the object and the path of the document in it, for messages.
	source string
	fields map[string]json.RawMessage
	// namespace is the namespace of the object; empty for the configured cloud.
	namespace string
	// secret is the Secret whose keys are the fields; nil when the layer is a document.
	secret *reference
}

// reference returns the key of the Secret or ConfigMap that a value of the layer was read from; nil for a value in a document.
// ref is the reference in the document; nil when there is none.
func (l layer) reference(field string, ref *reference) *reference {
	if l.secret == nil {
		return ref
	}
	return &reference{Kind: secretKind, Namespace: l.secret.Namespace, Name: l.secret.Name, Key: field}
}

// where returns the name of a field of the layer, for messages.
func (l layer) where(field string) string {
	if l.secret != nil {
		return fmt.Sprintf("%s, key %s (cloudProviderSpec.%s)", l.source, field, field)
	}
	return l.source + "." + field
}

// invalid returns an error about a field of the layer.
func (l layer) invalid(field, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s.%s: %s", l.source, field, fmt.Sprintf(format, args...))
}

// wrong adds the name of the field to err. An error of package fault keeps its class; any other error gets the class Invalid.
func (l layer) wrong(field string, err error) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		e := fault.New(known.Class, known.Code, "%s.%s: %s", l.source, field, known.Message)
		e.RetryAfter, e.Err = known.RetryAfter, err
		return e
	}
	return l.invalid(field, "%v", err)
}

// readLayer returns one document as a layer. It returns an error for an unknown or duplicate key.
func readLayer(source string, raw []byte) (layer, error) {
	fields, err := v1alpha1.Fields(source, raw, specFields, ignoredFields)
	if err != nil {
		return layer{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "%v", err)
	}
	return layer{source: source, fields: fields}, nil
}

// configuredCloud is the source name of the lowest layer. drover reads from it what neither the Machine nor its class nor its
// Cluster sets.
const configuredCloud = "the configured cloud (clouds.yaml or OS_* variables)"

// configuredLayer returns the credentials of the configured cloud as the lowest layer of a provider spec.
func configuredLayer(c *client.Credentials) layer {
	fields := map[string]json.RawMessage{}
	for name, text := range map[string]string{
		"identityEndpoint": c.IdentityEndpoint, "region": c.Region, "username": c.Username, "password": c.Password,
		"domainName": c.DomainName, "projectName": c.ProjectName, "projectID": c.ProjectID, "tokenId": c.Token,
		"applicationCredentialID": c.ApplicationCredentialID, "applicationCredentialName": c.ApplicationCredentialName,
		"applicationCredentialSecret": c.ApplicationCredentialSecret,
	} {
		if text != "" {
			raw, err := json.Marshal(text)
			if err == nil {
				fields[name] = raw
			}
		}
	}
	return layer{source: configuredCloud, fields: fields}
}

// layers are the sources in order of precedence: Machine, class, Cluster, configured cloud.
type layers struct {
	list []layer
	get  dereference
	// lenient is true for Machines that have, or had, a server. When aliases of a field disagree, the first one is then used, and
	// credentials that cannot be read are skipped.
	lenient bool
	// note records a warning about a field that is accepted without effect, for the Warnings condition; may be nil.
	note func(text string)
	// origin records the values that messages must not show; may be nil.
	origin *provenance
}

// resolve returns the text of a value and its reference. The reference is nil for a value that is in the document itself:
// messages may show this value.
func (ls layers) resolve(ctx context.Context, i int, field string, v value) (string, *reference, error) {
	text, err := v.resolve(ctx, ls.get)
	ref := ls.list[i].reference(field, v.ref)
	if err == nil {
		ls.origin.add(field, text, ref)
	}
	return text, ref, err
}

// found is the value of a field and where it was read.
type found struct {
	text string
	// from is the index of the layer; -1 when no layer has the field.
	from  int
	field string
	// ref is the key of the Secret or ConfigMap that the text was read from; nil when it was in a document.
	ref *reference
}

// shown returns what a message shows for the value: its text or, if it came from a Secret or ConfigMap, the reference to it.
func (f found) shown() string { return quote(f.text, f.ref) }

func (f found) given() bool { return f.from >= 0 }

// text returns the highest layer's value of a field with aliases. It returns an error for aliases that disagree within a layer.
func (ls layers) text(ctx context.Context, names ...string) (found, error) {
	for i := range ls.list {
		f, err := ls.textIn(ctx, i, names)
		if err != nil || f.given() {
			return f, err
		}
	}
	return found{from: -1, field: names[0]}, nil
}

func (ls layers) textIn(ctx context.Context, i int, names []string) (found, error) {
	l := ls.list[i]
	got := found{from: -1, field: names[0]}
	for _, name := range names {
		v, err := parseValue(l.fields[name])
		if err != nil {
			return got, l.wrong(name, err)
		}
		text, ref, err := ls.resolve(ctx, i, name, v)
		if err != nil {
			return got, l.wrong(name, err)
		}
		switch {
		case text == "":
		case !got.given():
			got = found{text: text, from: i, field: name, ref: ref}
		case got.text == text:
		case ls.lenient:
			if ls.note != nil {
				ls.note(l.where(name) + ": is ignored, because it differs from " + got.field)
			}
		default:
			return got, l.invalid(name, "%s conflicts with %s %s; the two fields have the same meaning: keep one of them", quote(text, ref), got.field, got.shown())
		}
	}
	return got, nil
}

// texts returns the highest layer's list of strings, and the index of that layer; -1 when no layer has the field.
func (ls layers) texts(ctx context.Context, name string) ([]string, int, error) {
	for i, l := range ls.list {
		list, err := ls.textsIn(ctx, i, name)
		if err != nil {
			return nil, -1, l.wrong(name, err)
		}
		if len(list) > 0 {
			return list, i, nil
		}
	}
	return nil, -1, nil
}

func (ls layers) textsIn(ctx context.Context, i int, name string) ([]string, error) {
	raw := ls.list[i].fields[name]
	if len(raw) == 0 {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("is not a list; use a list of names or IDs")
	}
	var texts []string
	for n, item := range items {
		v, err := parseValue(item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", n, err)
		}
		text, _, err := ls.resolve(ctx, i, name, v)
		if err != nil {
			return nil, err
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts, nil
}

// flag returns the highest layer's boolean: true, false, null or {value: …}. It returns an error for a JSON string.
func (ls layers) flag(ctx context.Context, name string) (bool, error) {
	for i, l := range ls.list {
		raw := l.fields[name]
		if len(raw) == 0 {
			continue
		}
		var plain bool
		if json.Unmarshal(raw, &plain) == nil {
			return plain, nil
		}
		v, err := parseValue(raw)
		if err == nil && raw[0] != '{' {
			err = fmt.Errorf("%s is not a boolean; use true or false without quotes", raw)
		}
		if err != nil {
			return false, l.wrong(name, err)
		}
		text, ref, err := ls.resolve(ctx, i, name, v)
		if err != nil {
			return false, l.wrong(name, err)
		}
		switch text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		case "":
		default:
			return false, l.invalid(name, "%s is not a boolean; use true or false", quote(text, ref))
		}
	}
	return false, nil
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
