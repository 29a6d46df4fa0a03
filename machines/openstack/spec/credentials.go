package spec

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/settings"
)

// Access returns the credentials. It returns an error of class Auth when they are missing or must not be sent to the endpoint. It reads them
// from the layers, field by field:
//   - The way of signing in is that of the highest layer that has one.
//   - Project ID and project name count as one field.
//   - A secret is sent to the endpoint of its own layer only. When a higher layer names another endpoint, that is an Auth error (MC-12).
//   - A reference to a missing key or object is treated as empty, and no lower layer is used instead, as long as one way of signing in
//     is complete.
//   - With the secret of the configured cloud, the configured user signs in, for the configured project.
func (s *Sources) Access() (*Access, error) {
	s.origin = newProvenance()
	r := credentialReader{Sources: s, fields: map[string]found{"": {from: -1}}}
	for _, names := range credentialNames {
		got, err := r.text(names...)
		if err != nil {
			return nil, err
		}
		r.fields[names[0]] = got
	}
	endpoint := r.fields["identityEndpoint"]
	endpoint.text = strings.TrimSpace(endpoint.text)
	r.fields["identityEndpoint"] = endpoint
	w := r.way()
	c, secret := r.credentials(w), r.fields[w.secret]
	if secret.given() && c.IdentityEndpoint != "" {
		if err := r.sendable(secret); err != nil {
			return nil, err
		}
	}
	if err := r.complete(c); err != nil {
		return nil, err
	}
	for _, a := range r.absent {
		r.note(r.layers[a.layer].where(a.field) + ": is treated as empty, because " + a.cause.Error())
	}
	a := &Access{Credentials: c, Origin: r.layers[secret.from].where(secret.field), endpoint: endpoint, endpointField: r.layers[endpoint.from].where("identityEndpoint")}
	if !strings.HasPrefix(a.Origin, s.object.Name) {
		a.Origin = s.object.Name + ": " + a.Origin
	}
	if secret.from == len(r.layers)-1 {
		for _, note := range s.configured.Notes {
			r.note(s.configured.Source + ": " + note)
		}
		if !s.reader.options.IdentityOverride {
			a.Wanted = r.ofConfigured(c)
		}
	}
	c.Vouched = endpoint.ref != nil && endpoint.ref.Kind == secretKind && s.reader.trusts(endpoint.ref.Namespace)
	c.Shown = r.shownInstead()
	return a, nil
}

// credentialNames are the fields about credentials, each with its aliases.
var credentialNames = [][]string{
	{"identityEndpoint"}, {"region"}, {"applicationCredentialID"}, {"applicationCredentialName"}, {"applicationCredentialSecret"},
	{"username"}, {"password"}, {"tokenId"}, {"domainName"}, {"projectID", "tenantID"}, {"projectName", "tenantName"},
}

// way is one way of signing in: the fields that name the user, that hold the secret, and that the way also uses.
type way struct {
	user, secret string
	uses         []string
}

// ways are the ways of signing in; within a layer the first counts.
var ways = []way{
	{"applicationCredentialID", "applicationCredentialSecret", nil},
	{"applicationCredentialName", "applicationCredentialSecret", []string{"username", "domainName"}},
	{"username", "password", []string{"domainName", "projectID", "projectName"}},
	{"tokenId", "tokenId", []string{"projectID", "projectName"}},
}

// credentialReader reads the credentials.
type credentialReader struct {
	*Sources
	// fields are the values of the fields, by their first names.
	fields map[string]found
	// absent are the fields that are treated as empty because they cannot be read, in the order of reading.
	absent []absentField
}

// absentField is a field that is treated as empty because it cannot be read.
type absentField struct {
	layer int
	field string
	cause error
}

// text returns the value of the highest layer that has the field. Names whose value cannot be read count as empty, and then no lower
// layer is read.
func (r *credentialReader) text(names ...string) (found, error) {
	for i, l := range r.layers {
		before := len(r.absent)
		readable := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			cause, tolerable := r.tolerable(l.values[name].err)
			if tolerable {
				r.absent = append(r.absent, absentField{layer: i, field: name, cause: cause})
			}
			return tolerable
		})
		got, err := r.textIn(i, readable...)
		if err != nil || got.given() || len(r.absent) > before {
			return got, err
		}
	}
	return found{from: -1}, nil
}

// tolerable reports whether the error err about a credential becomes a warning, so that the credential is treated as empty. This is so when
// a reference points to a missing key or object, or when reading is lenient and the field is invalid. cause is the reason that the warning
// shows.
func (s *Sources) tolerable(err error) (cause error, ok bool) {
	var missing *missingReference
	if errors.As(err, &missing) {
		return missing, true
	}
	return err, s.object.Lenient && fault.Is(err, fault.Invalid)
}

// way returns the way of signing in that drover uses: the first one of the highest layer that has any; the zero value when there is
// none. When a field for signing in cannot be read in some layer, two more rules apply. way uses no layer below that one: otherwise,
// a deleted Secret could move a Machine into the project of the configured cloud. And within its layer, it prefers a way whose secret
// could be read.
func (r *credentialReader) way() way {
	lowest := len(r.layers)
	for _, a := range r.absent {
		if slices.ContainsFunc(ways, func(w way) bool { return a.field == w.user || a.field == w.secret }) {
			lowest = min(lowest, a.layer)
		}
	}
	var best way
	at, complete := lowest+1, false
	for _, w := range ways {
		user, readable := r.fields[w.user], lowest < len(r.layers) && r.fields[w.secret].given()
		if user.given() && (user.from < at || user.from == at && readable && !complete) {
			best, at, complete = w, user.from, readable
		}
	}
	return best
}

// credentials returns the fields that the way uses as credentials. Fields that are not fields of a provider spec are those of the
// configured cloud, where its user or project is used, or its endpoint.
func (r *credentialReader) credentials(w way) *client.Credentials {
	own := r.configured
	c := &client.Credentials{CACert: own.CACert, Interfaces: own.Interfaces}
	texts := settings.Texts(c)
	for _, field := range append([]string{"identityEndpoint", "region", w.user, w.secret}, w.uses...) {
		if into := texts[field]; into != nil {
			*into = r.fields[field].text
		}
	}
	id, name := r.fields["projectID"], r.fields["projectName"]
	project := id
	if !id.given() || name.given() && name.from < id.from {
		project, c.ProjectID = name, ""
	} else {
		c.ProjectName = ""
	}
	if w.user == "tokenId" && project.from > r.fields[w.user].from {
		// The token has a project of its own.
		c.ProjectID, c.ProjectName = "", ""
	}
	r.addConfigured(c, w, project)
	return c
}

// addConfigured adds the settings of the configured cloud that no field of a provider spec has: those of its user, of its project and of its
// endpoint, each where the credentials use it. project is the field that names the project.
func (r *credentialReader) addConfigured(c *client.Credentials, w way, project found) {
	own, last := r.configured, len(r.layers)-1
	if c.Username != "" && r.fields["username"].from == last {
		c.UserID, c.UserDomainName, c.UserDomainID = own.UserID, own.UserDomainName, own.UserDomainID
	}
	if c.ProjectName != "" && project.from == last {
		c.ProjectDomainName, c.ProjectDomainID = own.ProjectDomainName, own.ProjectDomainID
	}
	if r.fields[w.secret].from == last && (!project.given() || project.from == last) {
		c.TrustID = own.TrustID
	}
	if client.SameEndpoint(c.IdentityEndpoint, own.IdentityEndpoint) {
		c.ClientCert, c.ClientKey = own.ClientCert, own.ClientKey
		if own.Region == "" || own.Region == c.Region {
			c.Places = own.Places
		}
	}
}

// complete returns an error that names what is missing for a sign-in. It is about the configured cloud when the user is.
func (r *credentialReader) complete(c *client.Credentials) error {
	method := c.Method()
	for _, need := range []struct {
		lacks       bool
		field, what string
	}{
		{c.IdentityEndpoint == "", "identityEndpoint", "is missing, and no configured cloud has one; set Keystone's URL"},
		{method == client.ByNothing, "username", "there are no credentials: set applicationCredentialID, username or tokenId, or configure a cloud"},
		{method == client.ByApplicationCredential && c.ApplicationCredentialSecret == "", "applicationCredentialSecret", "is missing; set the secret of the application credential"},
		{method == client.ByPassword && c.Password == "", "password", "is missing; set the user's password"},
		{method == client.ByPassword && !c.HasProject(), "projectName", "is missing; set the project in which servers are created"},
	} {
		if !need.lacks {
			continue
		}
		if absent := r.absences(c); absent != "" {
			return fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: no way of signing in is complete: %s", r.layers[0].source, absent)
		}
		from := r.layers[0]
		if last := len(r.layers) - 1; r.fields[r.way().user].from == last {
			from = r.layers[last]
		}
		return fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: %s", from.where(need.field), need.what)
	}
	return nil
}

// absences describes the missing Secrets and keys that the sign-in needs, and other errors about them; empty when there are none.
func (r *credentialReader) absences(c *client.Credentials) string {
	var texts, objects []string
	keys := map[string][]string{}
	for _, a := range r.absent {
		var missing *missingReference
		switch {
		case a.field == "region" || a.field == "domainName" || c.HasProject() && isProject(a.field):
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

// isProject reports whether a field names the project.
func isProject(field string) bool {
	return slices.Contains([]string{"projectID", "tenantID", "projectName", "tenantName"}, field)
}

// sendable returns an error when a secret must not be sent to the endpoint. It refuses a secret when a higher layer has replaced
// the endpoint that the secret's own or a lower layer names. It also refuses a secret in a Secret of another namespace, unless
// this Secret names the endpoint or the endpoint is the configured cloud's.
func (r *credentialReader) sendable(secret found) error {
	endpoint := r.fields["identityEndpoint"]
	for i := secret.from; i < len(r.layers); i++ {
		own, err := r.textIn(i, "identityEndpoint")
		if err != nil {
			return err
		}
		if !own.given() {
			continue
		}
		if client.SameEndpoint(own.text, endpoint.text) {
			break
		}
		return fault.New(fault.Auth, fault.CodeCredentialsMissing,
			"%s.identityEndpoint: %s has no credentials of its own, and the credentials of %s are for %s only; set credentials next to identityEndpoint",
			r.layers[0].source, shownEndpoint(endpoint), r.layers[secret.from].source, shownEndpoint(own))
	}
	if r.belongTogether(secret, endpoint) {
		return nil
	}
	return fault.New(fault.Auth, fault.CodeCredentialsMissing,
		"%s: %s is in namespace %s and names no endpoint, so drover sends its content to the configured cloud only, and not to %s; add the key identityEndpoint to that Secret and refer to that key",
		r.layers[0].source, secret.ref.object(), secret.ref.Namespace, shownEndpoint(endpoint))
}

// belongTogether reports whether a secret may be sent to an endpoint, depending on where both were found.
func (r *credentialReader) belongTogether(secret, endpoint found) bool {
	switch {
	case secret.ref == nil, client.SameEndpoint(endpoint.text, r.configured.IdentityEndpoint):
		return true
	case endpoint.ref != nil && endpoint.ref.Kind == secretKind && endpoint.ref.object() == secret.ref.object():
		return true
	case secret.ref.Namespace != r.layers[secret.from].namespace:
		return false
	}
	// The secret is in the same namespace as the object that names it. Anyone who can write that object could read the secret
	// anyway.
	return endpoint.from >= secret.from || r.layers[endpoint.from].namespace == secret.ref.Namespace
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
	if endpoint := r.fields["identityEndpoint"]; endpoint.ref != nil {
		if u, err := url.Parse(endpoint.text); err == nil && u.Hostname() != "" {
			r.origin.shown[u.Host] = "its host"
			r.origin.shown[u.Hostname()] = "its host"
		}
		r.origin.shown[client.NormalEndpoint(endpoint.text)] = endpoint.shown()
	}
	return r.origin.shown
}
