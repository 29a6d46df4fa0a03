package spec

import (
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Access holds the credentials of a provider spec and where they came from. The zero value has no credentials.
type Access struct {
	Credentials *client.Credentials
	// Origin names the field or key that the secret was read from; empty means that errors do not name it.
	Origin string
	// Wanted is the identity that the spec names and that the configured cloud's user must have.
	Wanted Identity

	// endpoint is Keystone's URL. endpointField is the field from which it was read.
	endpoint      found
	endpointField string
}

// Refusal describes an endpoint that the operator has not allowed.
type Refusal struct {
	// Err is the error for the Machine: of class Invalid for an endpoint that is not a URL, else of class Auth.
	Err *fault.Error
	// Endpoint is the endpoint as messages show it, and Flag the flag that allows it. Both are empty for an endpoint that is not a
	// URL.
	Endpoint, Flag string
}

// Refuse returns the error for an endpoint that the operator has not allowed.
func (a *Access) Refuse() Refusal {
	location, ref := client.Location(a.endpoint.text), a.endpoint.ref
	name, flag, remedy := location, "--allowed-endpoints="+location, ""
	switch {
	case location == "":
		return Refusal{Err: fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: the endpoint is not a URL like https://host:port/path", a.endpointField)}
	case ref != nil && ref.Kind == secretKind:
		name, flag = ref.value(), "--secret-namespaces="+ref.Namespace
		remedy = ", or with this URL in --allowed-endpoints"
	case ref != nil:
		name, flag = ref.value(), "--allowed-endpoints=URL"
	}
	err := fault.New(fault.Auth, fault.CodeEndpointNotAllowed,
		"%s: %s is not allowed, and nothing is sent to it; if it is a cloud of yours, start drover with %s%s", a.endpointField, name, flag, remedy)
	return Refusal{Err: err, Endpoint: name, Flag: flag}
}

// WithOrigin adds the origin of the secret to the message of a refused sign-in; it returns other errors unchanged. The origin is
// added here because all Machines with the same credentials share one sign-in, but each Machine may have read the credentials from
// another object.
func (a *Access) WithOrigin(err error) error {
	e := fault.Of(err)
	if e == nil || e.Code != fault.CodeUnauthorized || a.Origin == "" {
		return err
	}
	own := fault.New(e.Class, e.Code, "%s: %s", a.Origin, e.Message)
	own.RetryAfter, own.Err = e.RetryAfter, err
	return own
}
