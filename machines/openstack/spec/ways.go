package spec

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"
)

// way is one way of signing in to OpenStack: with an application credential, a user's password or a token. It holds the values
// that the layers have for it.
type way struct {
	// user is the application credential, the user, or the token itself. secret is the application credential's secret or the
	// user's password, and may be missing.
	user, secret found
	// use copies the fields of the way into the credentials.
	use func(*client.Credentials)
}

// absentField is a field that is treated as empty because it cannot be read.
type absentField struct {
	layer int
	field string
	cause error
}

// way returns the way of signing in that drover uses: the first one of the highest layer that has any. When a field for signing
// in cannot be read in some layer, two more rules apply. way uses no layer below that one: otherwise, a deleted Secret could move
// a Machine into the project of the configured cloud. And within its layer, it prefers a way whose secret could be read. It
// returns false when no way of signing in is left.
func (r *credentialReader) way() (way, bool) {
	all := r.ways()
	lowest := len(r.list)
	for _, a := range r.absent {
		if isSignIn(a.field) {
			lowest = min(lowest, a.layer)
		}
	}
	all = slices.DeleteFunc(all, func(w way) bool { return w.user.from > lowest })
	if len(all) == 0 {
		return way{}, false
	}
	if lowest < len(r.list) {
		for _, w := range all {
			if w.secret.given() && w.user.from == all[0].user.from {
				return w, true
			}
		}
	}
	return all[0], true
}

// ways returns the ways of signing in that have a user, beginning with those of the highest layer. Within a layer the order is
// application credential, password, token.
func (r *credentialReader) ways() []way {
	id, name, secret := r.text("applicationCredentialID"), r.text("applicationCredentialName"), r.text("applicationCredentialSecret")
	user, password, token := r.text("username"), r.text("password"), r.text("tokenId")
	domain := r.text("domainName")
	all := []way{
		{id, secret, func(c *client.Credentials) {
			c.ApplicationCredentialID, c.ApplicationCredentialSecret = id.text, secret.text
		}},
		{name, secret, func(c *client.Credentials) {
			c.ApplicationCredentialName, c.ApplicationCredentialSecret = name.text, secret.text
			c.Username, c.DomainName = user.text, domain.text
		}},
		{user, password, func(c *client.Credentials) {
			c.Username, c.Password, c.DomainName = user.text, password.text, domain.text
		}},
		{token, token, func(c *client.Credentials) { c.Token = token.text }},
	}
	all = slices.DeleteFunc(all, func(w way) bool { return !w.user.given() })
	slices.SortStableFunc(all, func(a, b way) int { return cmp.Compare(a.user.from, b.user.from) })
	return all
}

// noteAbsent adds a warning for each field that is treated as empty.
func (r *credentialReader) noteAbsent() {
	if r.note == nil {
		return
	}
	for _, a := range r.absent {
		r.note(r.list[a.layer].where(a.field) + ": is treated as empty, because " + a.cause.Error())
	}
}

// absences describes the missing Secrets and keys that the sign-in needs, and other errors about them; empty when there are none.
func (r *credentialReader) absences() string {
	var texts, objects []string
	keys := map[string][]string{}
	for _, a := range r.absent {
		var missing *missingReference
		switch {
		case a.field == "region" || a.field == "domainName" || r.c.HasProject() && isProject(a.field):
		case !errors.As(a.cause, &missing) || missing.object:
			texts = append(texts, a.cause.Error())
		default:
			object := missing.ref.object()
			objects = append(objects, object)
			keys[object] = append(keys[object], missing.ref.Key)
		}
	}
	for _, object := range unique(objects) {
		texts = append(texts, object+" has no key "+strings.Join(unique(keys[object]), ", "))
	}
	return strings.Join(unique(texts), "; ")
}
