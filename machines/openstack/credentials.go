package openstack

import (
	"context"
	"encoding/json"
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

// readCredentials takes the credentials out of the layers, field by field, under four rules. The way of signing in is
// the one that the highest layer with any asks for. Project ID and name count as one field. A secret goes to its own
// layer's endpoint only: when a higher layer names another endpoint, that is an Auth error (MC-12). And a reference to a
// key or object that does not exist counts as empty, without a lower layer taking its place, as long as one way of
// signing in is complete.
//
// The text says where the secret was taken from, for whoever has to correct it.
func readCredentials(ctx context.Context, ls layers, configured *client.Credentials) (*client.Credentials, string, error) {
	r := credentialReader{layers: ls, ctx: ctx, c: &client.Credentials{CACert: configured.CACert, Interface: configured.Interface}}
	endpoint := r.text("identityEndpoint")
	r.c.IdentityEndpoint = strings.TrimSpace(endpoint.text)
	r.c.Region = r.text("region").text
	r.signIn()
	r.project()
	if r.err != nil {
		return nil, "", r.err
	}
	if err := r.complete(); err != nil {
		return nil, "", err
	}
	r.noteAbsent()
	if last := len(ls.list) - 1; r.user.from == last {
		r.c.UserDomainName, r.c.UserDomainID = configured.UserDomainName, configured.UserDomainID
		r.c.DomainID = configured.DomainID
	}
	if last := len(ls.list) - 1; r.projectFrom == last {
		r.c.ProjectDomainName, r.c.ProjectDomainID = configured.ProjectDomainName, configured.ProjectDomainID
	}
	return r.c, r.list[r.secret.from].where(r.secret.field), nil
}

// credentialReader keeps the first error, so that the rules above read one by one.
type credentialReader struct {
	layers
	ctx         context.Context
	c           *client.Credentials
	user        found
	secret      found
	projectFrom int
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
	r.user, r.secret = w.user, w.secret
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

// sendable refuses to send a secret to an endpoint that a higher layer chose.
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
			return nil
		}
		return fault.New(fault.Auth, fault.CodeCredentialsMissing,
			"%s.identityEndpoint: %s has no credentials of its own, and those of %s are for %s alone; give credentials beside it",
			r.list[0].source, r.c.IdentityEndpoint, r.list[secret.from].source, own.text)
	}
	return nil
}

// project reads the project that the token is for; an application credential has its own.
func (r *credentialReader) project() {
	r.projectFrom = -1
	if r.c.Method() == client.ByApplicationCredential || r.c.Method() == client.ByToken {
		return
	}
	id, name := r.text("projectID", "tenantID"), r.text("projectName", "tenantName")
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
