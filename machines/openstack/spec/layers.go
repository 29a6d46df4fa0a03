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

// layer is one source of a provider spec. What a layer leaves empty is filled by the next one.
type layer struct {
	// source names the object and the path of the document in it, for messages.
	source string
	fields map[string]json.RawMessage
	// namespace of the object; empty for the configured cloud.
	namespace string
	// secret is the Secret whose keys are the fields, for an object that names it; nil: the layer is a document.
	secret *reference
}

// reference returns where a value of the layer came from. ref is the reference in the document, if any.
func (l layer) reference(field string, ref *reference) *reference {
	if l.secret == nil {
		return ref
	}
	return &reference{Kind: secretKind, Namespace: l.secret.Namespace, Name: l.secret.Name, Key: field}
}

// where names a field of the layer.
func (l layer) where(field string) string {
	if l.secret != nil {
		return fmt.Sprintf("%s, key %s (cloudProviderSpec.%s)", l.source, field, field)
	}
	return l.source + "." + field
}

// invalid returns the error about a field of the layer.
func (l layer) invalid(field, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s.%s: %s", l.source, field, fmt.Sprintf(format, args...))
}

// wrong turns an error about a field into a fault; a fault keeps its class.
func (l layer) wrong(field string, err error) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		e := fault.New(known.Class, known.Code, "%s.%s: %s", l.source, field, known.Message)
		e.RetryAfter, e.Err = known.RetryAfter, err
		return e
	}
	return l.invalid(field, "%v", err)
}

// readLayer returns one document as a layer. A key that is unknown, or stands twice, is an error.
func readLayer(source string, raw []byte) (layer, error) {
	fields, err := v1alpha1.Fields(source, raw, specFields, ignoredFields)
	if err != nil {
		return layer{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "%v", err)
	}
	return layer{source: source, fields: fields}, nil
}

// configuredCloud is the source of what neither Machine, class nor Cluster has.
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

// layers are the sources in their order: Machine, class, Cluster, configured cloud.
type layers struct {
	list []layer
	get  dereference
	// lenient takes the first of several aliases that disagree, and leaves out credentials that cannot be read: for
	// Machines that have, or had, a server.
	lenient bool
	// note records what is accepted without effect, for the Warnings condition; may be nil.
	note func(text string)
	// origin records the values that must not be shown; may be nil.
	origin *provenance
}

// resolve returns the text of a value, and where it came from; nil: from a document, so that it may be shown.
func (ls layers) resolve(ctx context.Context, i int, field string, v value) (string, *reference, error) {
	text, err := v.resolve(ctx, ls.get)
	ref := ls.list[i].reference(field, v.ref)
	if err == nil {
		ls.origin.add(field, text, ref)
	}
	return text, ref, err
}

// found is a text and where it came from.
type found struct {
	text string
	// from is the index of the layer; -1 when no layer has the field.
	from  int
	field string
	// ref is the key of the Secret or ConfigMap that the text was read from; nil: it stands in a document.
	ref *reference
}

// shown returns the text for a message, or the reference in its place.
func (f found) shown() string { return quote(f.text, f.ref) }

func (f found) given() bool { return f.from >= 0 }

// text returns the highest layer's value for a field that has aliases. Aliases that disagree within a layer are an error.
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
				ls.note(l.where(name) + ": counts as empty, because it differs from " + got.field)
			}
		default:
			return got, l.invalid(name, "%s conflicts with %s %s; they mean the same, keep one", quote(text, ref), got.field, got.shown())
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
		return nil, fmt.Errorf("is no list; give a list of names or IDs")
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

// flag returns the highest layer's boolean: true, false, null or {value: …}. A JSON string is an error.
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
			err = fmt.Errorf("%s is not a boolean; write true or false without quotes", raw)
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
			return false, l.invalid(name, "%s is not a boolean; write true or false", quote(text, ref))
		}
	}
	return false, nil
}

// unique returns the texts without repetition, in the order of their first appearance.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
