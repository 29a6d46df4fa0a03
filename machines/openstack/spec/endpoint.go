package spec

import (
	"net/url"
	"slices"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// sendable returns an error when a secret must not be sent to the endpoint. It refuses a secret when a higher layer has replaced
// the endpoint that the secret's own or a lower layer names. It also refuses a secret in a Secret of another namespace, unless
// this Secret names the endpoint or the endpoint is the configured cloud's.
func (r *credentialReader) sendable(secret found) error {
	for i := secret.from; i < len(r.list); i++ {
		own, err := r.textIn(r.ctx, i, []string{"identityEndpoint"})
		if err != nil {
			return err
		}
		if !own.given() {
			continue
		}
		if client.SameEndpoint(own.text, r.c.IdentityEndpoint) {
			break
		}
		return fault.New(fault.Auth, fault.CodeCredentialsMissing,
			"%s.identityEndpoint: %s has no credentials of its own, and the credentials of %s are for %s only; set credentials next to identityEndpoint",
			r.list[0].source, shownEndpoint(r.endpoint), r.list[secret.from].source, shownEndpoint(own))
	}
	if r.belongTogether(secret, r.endpoint) {
		return nil
	}
	return fault.New(fault.Auth, fault.CodeCredentialsMissing,
		"%s: %s is in namespace %s and names no endpoint, so drover sends its content to the configured cloud only, and not to %s; add the key identityEndpoint to that Secret and refer to that key",
		r.list[0].source, secret.ref.object(), secret.ref.Namespace, shownEndpoint(r.endpoint))
}

// belongTogether reports whether a secret may be sent to an endpoint, depending on where both were found.
func (r *credentialReader) belongTogether(secret, endpoint found) bool {
	switch {
	case secret.ref == nil, client.SameEndpoint(endpoint.text, r.rules.configured.IdentityEndpoint):
		return true
	case endpoint.ref != nil && endpoint.ref.Kind == secretKind && endpoint.ref.object() == secret.ref.object():
		return true
	case secret.ref.Namespace != r.list[secret.from].namespace:
		return false
	}
	// The secret is in the same namespace as the object that names it. Anyone who can write that object could read the secret
	// anyway.
	return endpoint.from >= secret.from || r.list[endpoint.from].namespace == secret.ref.Namespace
}

// shownEndpoint returns an endpoint for a message, without quotes.
func shownEndpoint(endpoint found) string {
	if endpoint.ref != nil {
		return endpoint.shown()
	}
	return endpoint.text
}

// shownInstead returns the values that came from a Secret or ConfigMap, each with the text that messages show instead. It includes
// the endpoint's host, because connection errors name it.
func (r *credentialReader) shownInstead() map[string]string {
	if len(r.origin.shown) == 0 {
		return nil
	}
	if r.endpoint.ref != nil {
		if u, err := url.Parse(r.endpoint.text); err == nil && u.Hostname() != "" {
			r.origin.shown[u.Host] = "its host"
			r.origin.shown[u.Hostname()] = "its host"
		}
		r.origin.shown[client.NormalEndpoint(r.endpoint.text)] = r.endpoint.shown()
	}
	return r.origin.shown
}

// vouched reports whether an endpoint comes from a Secret that the operator trusts, so that it need not be in the list of allowed
// endpoints.
func (r *credentialReader) vouched(endpoint found) bool {
	return endpoint.ref != nil && endpoint.ref.Kind == secretKind && slices.Contains(r.rules.trusted, endpoint.ref.Namespace)
}
