package spec

import (
	"encoding/json"
	"errors"
	"fmt"

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
