package openstack

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/drover-project/drover/machines/fault"
)

// unauthorized puts where the secret came from before a refusal to sign in; other errors stay as they are. Sign-ins are
// shared by all who use the same credentials, wherever each has them from.
func unauthorized(origin string, err error) error {
	e := fault.Of(err)
	if e == nil || e.Code != fault.CodeUnauthorized || origin == "" {
		return err
	}
	own := fault.New(e.Class, e.Code, "%s: %s", origin, e.Message)
	own.RetryAfter, own.Err = e.RetryAfter, err
	return own
}

// fieldsOf returns the credentials of the configured cloud as the lowest layer of a provider spec.
func fieldsOf(c *client.Credentials) map[string]json.RawMessage {
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
	return fields
}

// access is what a Machine's calls to the cloud are made with.
type access struct {
	creds *client.Credentials
	// origin says where the secret was taken from, for the person who has to correct it.
	origin string
	// endpoint is Keystone's URL, and endpointField where it was found, for people.
	endpoint      found
	endpointField string
	// wanted is what the spec asks of the configured cloud's user; the zero value asks for nothing.
	wanted wantedIdentity
}

// credentialRules hold what an operator has said about credentials.
type credentialRules struct {
	// configured are the credentials of the configured cloud.
	configured *client.Credentials
	// trusted are the namespaces whose Secrets may name an endpoint: drover's own, and the allowed ones.
	trusted []string
	// override lets a spec replace user, domain and project of the configured cloud.
	override bool
}

// readCredentials takes the credentials out of the layers, field by field, under five rules. The way of signing in is
// the one that the highest layer with any asks for. Project ID and name count as one field. A secret goes to its own
// layer's endpoint only: when a higher layer names another endpoint, that is an Auth error (MC-12). A reference to a
// key or object that does not exist counts as empty, without a lower layer taking its place, as long as one way of
// signing in is complete. And the secret of the configured cloud signs in its own user, for its own project.
func readCredentials(ctx context.Context, ls layers, of credentialRules) (*access, error) {
	ls.origin = newProvenance()
	r := credentialReader{layers: ls, rules: of, ctx: ctx, c: &client.Credentials{CACert: of.configured.CACert, Interface: of.configured.Interface}}
	r.endpoint = r.text("identityEndpoint")
	r.endpoint.text = strings.TrimSpace(r.endpoint.text)
	r.c.IdentityEndpoint = r.endpoint.text
	r.c.Region = r.text("region").text
	r.signIn()
	r.project()
	if r.err != nil {
		return nil, r.err
	}
	if err := r.complete(); err != nil {
		return nil, err
	}
	r.noteAbsent()
	last := len(ls.list) - 1
	if r.user.from == last {
		r.c.UserDomainName, r.c.UserDomainID = of.configured.UserDomainName, of.configured.UserDomainID
		r.c.DomainID = of.configured.DomainID
	}
	if r.projectFrom == last {
		r.c.ProjectDomainName, r.c.ProjectDomainID = of.configured.ProjectDomainName, of.configured.ProjectDomainID
	}
	a := &access{creds: r.c, origin: r.list[r.secret.from].where(r.secret.field), endpoint: r.endpoint, endpointField: r.list[r.endpoint.from].where("identityEndpoint")}
	if r.secret.from == last && !of.override {
		a.wanted = r.ofConfigured()
	}
	a.creds.Vouched = r.vouched(r.endpoint)
	a.creds.Shown = r.shownInstead()
	return a, nil
}

// shownInstead returns the values that came from a Secret or ConfigMap, each with what is shown in its place. The endpoint's host
// is one of them: errors of connections name it.
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

// vouched reports whether an endpoint stands in a Secret that the operator trusts.
func (r *credentialReader) vouched(endpoint found) bool {
	return endpoint.ref != nil && endpoint.ref.Kind == secretKind && slices.Contains(r.rules.trusted, endpoint.ref.Namespace)
}

// credentialReader keeps the first error, so that the rules above read one by one.
type credentialReader struct {
	layers
	rules       credentialRules
	ctx         context.Context
	c           *client.Credentials
	endpoint    found
	user        found
	domain      found
	secret      found
	projectFrom int
	projectName found
	projectID   found
	// absent are the fields that count as empty because they cannot be read, in the order of reading.
	absent []absentField
	err    error
}

// text returns the value of the highest layer that has the field. A layer in which it is absent ends the search.
func (r *credentialReader) text(names ...string) found {
	none := found{from: -1, field: names[0]}
	for i := 0; i < len(r.list) && r.err == nil; i++ {
		before := len(r.absent)
		got := r.textOf(i, names)
		if got.given() || len(r.absent) > before {
			return got
		}
	}
	return none
}

// textOf reads one layer. A name that cannot be read leaves the field to its aliases.
func (r *credentialReader) textOf(i int, names []string) found {
	readable := make([]string, 0, len(names))
	for _, name := range names {
		_, err := r.textIn(r.ctx, i, []string{name})
		cause, tolerable := r.tolerable(err)
		switch {
		case err == nil:
			readable = append(readable, name)
		case tolerable:
			r.absent = append(r.absent, absentField{layer: i, field: name, cause: cause})
		default:
			r.err = err
			return found{from: -1, field: name}
		}
	}
	if len(readable) == 0 {
		return found{from: -1, field: names[0]}
	}
	got, err := r.textIn(r.ctx, i, readable)
	r.err = err
	return got
}

// signIn chooses the way of signing in and takes its fields.
func (r *credentialReader) signIn() {
	w, ok := r.way()
	if !ok || r.err != nil {
		return
	}
	w.use(r.c)
	r.user, r.domain, r.secret = w.user, r.text("domainName"), w.secret
	if r.secret.given() && r.c.IdentityEndpoint != "" {
		r.err = r.sendable(r.secret)
	}
}

// highest gives the index of the one from the highest layer, the first of equals; -1 when none is given.
func highest(all ...found) int {
	best := -1
	for i, f := range all {
		if f.given() && (best < 0 || f.from < all[best].from) {
			best = i
		}
	}
	return best
}

// sendable refuses to send a secret to an endpoint that a higher layer chose, and a Secret of another namespace to an endpoint
// that it does not name itself, unless that is the configured cloud's.
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
			"%s.identityEndpoint: %s has no credentials of its own, and those of %s are for %s alone; give credentials beside it",
			r.list[0].source, shownEndpoint(r.endpoint), r.list[secret.from].source, shownEndpoint(own))
	}
	if r.belongTogether(secret, r.endpoint) {
		return nil
	}
	return fault.New(fault.Auth, fault.CodeCredentialsMissing,
		"%s: %s is of namespace %s and names no endpoint, so it is sent to the configured cloud only, and not to %s; put the key identityEndpoint into that Secret and refer to it",
		r.list[0].source, secret.ref.object(), secret.ref.Namespace, shownEndpoint(r.endpoint))
}

// belongTogether reports whether a secret may be sent to an endpoint, by where both were found.
func (r *credentialReader) belongTogether(secret, endpoint found) bool {
	switch {
	case secret.ref == nil, client.SameEndpoint(endpoint.text, r.rules.configured.IdentityEndpoint):
		return true
	case endpoint.ref != nil && endpoint.ref.Kind == secretKind && endpoint.ref.object() == secret.ref.object():
		return true
	case secret.ref.Namespace != r.list[secret.from].namespace:
		return false
	}
	// The secret stands beside the object that names it. People who write there could read it anyway.
	return endpoint.from >= secret.from || r.list[endpoint.from].namespace == secret.ref.Namespace
}

// shownEndpoint returns an endpoint for a message, without quotes.
func shownEndpoint(endpoint found) string {
	if endpoint.ref != nil {
		return endpoint.shown()
	}
	return endpoint.text
}

// project reads the project that the token is for; an application credential has its own.
func (r *credentialReader) project() {
	r.projectFrom = -1
	if r.c.Method() == client.ByApplicationCredential || r.c.Method() == client.ByToken {
		return
	}
	id, name := r.text("projectID", "tenantID"), r.text("projectName", "tenantName")
	r.projectID, r.projectName = id, name
	switch highest(id, name) {
	case 0:
		r.c.ProjectID, r.projectFrom = id.text, id.from
	case 1:
		r.c.ProjectName, r.projectFrom = name.text, name.from
	}
}

// complete names what is missing.
func (r *credentialReader) complete() error {
	missing := func(field, what string) error {
		if absent := r.absences(); absent != "" {
			return fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: no way of signing in is complete: %s", r.list[0].source, absent)
		}
		return fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s.%s: %s", r.list[0].source, field, what)
	}
	c := r.c
	switch {
	case c.IdentityEndpoint == "":
		return missing("identityEndpoint", "is missing, and no configured cloud gives one; name Keystone's URL")
	case c.Method() == client.ByNothing:
		return missing("username", "there are no credentials: give applicationCredentialID, username or tokenId, or configure a cloud")
	case c.Method() == client.ByApplicationCredential && c.ApplicationCredentialSecret == "":
		return missing("applicationCredentialSecret", "is missing; it belongs to the application credential")
	case c.Method() == client.ByPassword && c.Password == "":
		return missing("password", "is missing; it belongs to the username")
	case c.Method() == client.ByPassword && !c.HasProject():
		return missing("projectName", "is missing; name the project that servers are made in")
	}
	return nil
}
