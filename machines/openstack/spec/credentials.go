package spec

import (
	"context"
	"errors"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// credentialRules are the operator's rules for the credentials in provider specs.
type credentialRules struct {
	// configured are the credentials of the configured cloud.
	configured *client.Credentials
	// trusted are the namespaces whose Secrets may name an endpoint: drover's own, and the allowed ones.
	trusted []string
	// override allows a spec to replace user, domain and project of the configured cloud.
	override bool
}

// readCredentials reads the credentials from the layers, field by field:
//   - The way of signing in is that of the highest layer that has one.
//   - Project ID and project name count as one field.
//   - A secret is sent to the endpoint of its own layer only. When a higher layer names another endpoint, that is an Auth error (MC-12).
//   - A reference to a missing key or object is treated as empty, and no lower layer is used instead, as long as one way of signing in
//     is complete.
//   - With the secret of the configured cloud, the configured user signs in, for the configured project.
func readCredentials(ctx context.Context, ls layers, of credentialRules) (*Access, error) {
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
	a := &Access{Credentials: r.c, Origin: r.list[r.secret.from].where(r.secret.field), endpoint: r.endpoint, endpointField: r.list[r.endpoint.from].where("identityEndpoint")}
	if r.secret.from == last && !of.override {
		a.Wanted = r.ofConfigured()
	}
	a.Credentials.Vouched = r.vouched(r.endpoint)
	a.Credentials.Shown = r.shownInstead()
	return a, nil
}

// credentialReader reads the credentials. It stores the first error in err, so that its methods can be called one after the other.
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
	// absent are the fields that are treated as empty because they cannot be read, in the order of reading.
	absent []absentField
	err    error
}

// text returns the value of the highest layer that has the field. When the field cannot be read in a layer, text reads no lower
// layer.
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

// textOf reads a field in one layer. names are the names of the field; textOf ignores a name whose value cannot be read.
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

// tolerable reports whether the error err about a credential becomes a warning, so that the credential is treated as empty. This is so when
// a reference points to a missing key or object, or when reading is lenient and the field is invalid. cause is the reason that the warning
// shows.
func (ls layers) tolerable(err error) (cause error, ok bool) {
	var missing *missingReference
	if errors.As(err, &missing) {
		return missing, true
	}
	return err, ls.lenient && fault.Is(err, fault.Invalid)
}

// signIn chooses the way of signing in and reads its fields.
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

// highest returns the index of the value from the highest layer; -1 when no value is set. Of several values from that layer it returns
// the first.
func highest(all ...found) int {
	best := -1
	for i, f := range all {
		if f.given() && (best < 0 || f.from < all[best].from) {
			best = i
		}
	}
	return best
}

// project reads the project for the token. An application credential and a token have their own project.
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

// complete returns an error that names what is missing for a sign-in.
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
		return missing("identityEndpoint", "is missing, and no configured cloud has one; set Keystone's URL")
	case c.Method() == client.ByNothing:
		return missing("username", "there are no credentials: set applicationCredentialID, username or tokenId, or configure a cloud")
	case c.Method() == client.ByApplicationCredential && c.ApplicationCredentialSecret == "":
		return missing("applicationCredentialSecret", "is missing; set the secret of the application credential")
	case c.Method() == client.ByPassword && c.Password == "":
		return missing("password", "is missing; set the user's password")
	case c.Method() == client.ByPassword && !c.HasProject():
		return missing("projectName", "is missing; set the project in which servers are created")
	}
	return nil
}
