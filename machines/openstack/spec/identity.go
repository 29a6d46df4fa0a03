package spec

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Identity is the user, domain and project that a provider spec without a password or secret of its own names. drover does not sign in
// with them, but as the configured cloud's user. The zero value means that the spec names none of the three.
type Identity struct {
	source                               string
	user, domain, projectName, projectID found
}

// ofConfigured sets the credentials to those of the configured cloud, except for the region, and returns the identity that the spec
// names. This identity is compared with the user's after the sign-in, when names and IDs are known.
func (r *credentialReader) ofConfigured() Identity {
	last := len(r.list) - 1
	own := *r.rules.configured
	own.Region = r.c.Region
	above := func(f found, same ...string) found {
		if f.from == last || slices.Contains(same, f.text) {
			return found{from: -1}
		}
		return f
	}
	w := Identity{source: r.list[0].source, user: above(r.user, own.Username, own.ApplicationCredentialID, own.ApplicationCredentialName)}
	if r.c.ApplicationCredentialID == "" {
		w.domain = above(r.domain)
	}
	switch r.c.Method() {
	case client.ByPassword:
		own.ApplicationCredentialID, own.ApplicationCredentialName, own.ApplicationCredentialSecret, own.Token = "", "", "", ""
		w.projectName, w.projectID = above(r.projectName), above(r.projectID)
	case client.ByToken:
		own.ApplicationCredentialID, own.ApplicationCredentialName, own.ApplicationCredentialSecret, own.Username, own.Password = "", "", "", "", ""
	}
	*r.c = own
	return w
}

// Check returns an error when the identity that the spec names is not that of the signed-in user of the configured cloud.
func (w Identity) Check(scope *client.Scope) error {
	for _, c := range []struct {
		field string
		named found
		is    []string
	}{
		{"user", w.user, []string{scope.User.Name, scope.User.ID}},
		{"domain", w.domain, []string{scope.UserDomain.Name, scope.UserDomain.ID, scope.ProjectDomain.Name, scope.ProjectDomain.ID}},
		{"project", w.projectName, []string{scope.ProjectName, scope.ProjectID}},
		{"project", w.projectID, []string{scope.ProjectID}},
	} {
		if c.named.text == "" || slices.ContainsFunc(c.is, func(is string) bool { return is != "" && sameID(is, c.named.text) }) {
			continue
		}
		return fault.New(fault.Auth, fault.CodeProjectNotAllowed,
			"%s.%s: %s is not the %s of the configured cloud's credentials, and the spec has no credentials of its own; set credentials in the spec, or start drover with --allow-identity-override",
			w.source, c.named.field, c.named.shown(), c.field)
	}
	return nil
}

// sameID reports whether two names or IDs are equal. IDs may be written with or without dashes.
func sameID(a, b string) bool {
	return a == b || client.LooksLikeID(a) && client.LooksLikeID(b) &&
		strings.EqualFold(strings.ReplaceAll(a, "-", ""), strings.ReplaceAll(b, "-", ""))
}
