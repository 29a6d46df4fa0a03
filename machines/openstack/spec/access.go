package spec

import (
	"slices"
	"strings"

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

	// endpoint is Keystone's URL.
	endpoint value
}

// Refuse returns the error for an endpoint that the operator has not allowed, of class Invalid for an endpoint that is not a URL, else of
// class Auth. shown is the endpoint as messages show it, and flag the flag that allows it; both are empty for an endpoint that is not a URL.
func (a *Access) Refuse() (shown, flag string, err error) {
	location, ref := client.Location(a.endpoint.text), a.endpoint.ref
	shown, flag, remedy := location, "--allowed-endpoints="+location, ""
	switch {
	case location == "":
		return "", "", invalid(a.endpoint.at, "the endpoint is not a URL like https://host:port/path")
	case ref != nil && ref.Kind == secretKind:
		shown, flag = ref.value(), "--secret-namespaces="+ref.Namespace
		remedy = ", or with this URL in --allowed-endpoints"
	case ref != nil:
		shown, flag = ref.value(), "--allowed-endpoints=URL"
	}
	return shown, flag, fault.New(fault.Auth, fault.CodeEndpointNotAllowed,
		"%s: %s is not allowed, and nothing is sent to it; if it is a cloud of yours, start drover with %s%s", a.endpoint.at, shown, flag, remedy)
}

// WithOrigin adds the origin of the secret to the message of a refused sign-in; it returns other errors unchanged. The origin is
// added here because all Machines with the same credentials share one sign-in, but each Machine may have read the credentials from
// another object.
func (a *Access) WithOrigin(err error) error {
	e := fault.Of(err)
	if e == nil || e.Code != fault.CodeUnauthorized || a.Origin == "" {
		return err
	}
	return reworded(err, a.Origin+": "+e.Message)
}

// Identity is the user, domain and project that a provider spec without a password or secret of its own names. drover does not sign in
// with them, but as the configured cloud's user. The zero value means that the spec names none of the three.
type Identity struct {
	source                               string
	user, domain, projectName, projectID value
}

// ofConfigured sets the credentials to those of the configured cloud, except for the region, and returns the identity that the spec
// names. This identity is compared with the user's after the sign-in, when names and IDs are known.
func (m *merged) ofConfigured(c *client.Credentials, w way) Identity {
	own := *m.configured
	own.Region, own.Places = c.Region, c.Places
	above := func(v value, same ...string) value {
		if m.isConfigured(v) || slices.Contains(same, v.text) {
			return value{}
		}
		return v
	}
	named := Identity{source: m.layers[0].source, user: above(m.fields[w.user], own.Username, own.UserID, own.ApplicationCredentialID, own.ApplicationCredentialName)}
	if c.ApplicationCredentialID == "" {
		named.domain = above(m.fields["domainName"])
	}
	if c.Method() == client.ByPassword {
		named.projectName, named.projectID = above(m.fields["projectName"]), above(m.fields["projectID"])
	}
	*c = own
	return named
}

// Check returns an error when the identity that the spec names is not that of the signed-in user of the configured cloud.
func (w Identity) Check(scope *client.Scope) error {
	for _, c := range []struct {
		field string
		named value
		is    []string
	}{
		{"user", w.user, []string{scope.User.Name, scope.User.ID}},
		{"domain", w.domain, []string{scope.User.Domain.Name, scope.User.Domain.ID, scope.ProjectDomain.Name, scope.ProjectDomain.ID}},
		{"project", w.projectName, []string{scope.ProjectName, scope.ProjectID}},
		{"project", w.projectID, []string{scope.ProjectID}},
	} {
		if c.named.text == "" || slices.ContainsFunc(c.is, func(is string) bool { return is != "" && sameID(is, c.named.text) }) {
			continue
		}
		return fault.New(fault.Auth, fault.CodeProjectNotAllowed,
			"%s.%s: %s is not the %s of the configured cloud's credentials, and the spec has no credentials of its own; set credentials in the spec, or start drover with --features=identity-override",
			w.source, c.named.field, c.named.shown(), c.field)
	}
	return nil
}

// sameID reports whether two names or IDs are equal. IDs may be written with or without dashes.
func sameID(a, b string) bool {
	return a == b || client.LooksLikeID(a) && client.LooksLikeID(b) &&
		strings.EqualFold(strings.ReplaceAll(a, "-", ""), strings.ReplaceAll(b, "-", ""))
}
