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
	for _, names := range specFields {
		if v := s.fields[names[0]]; v.err != nil && isCredential(names[0]) {
			return nil, v.err
		}
	}
	w, endpoint := s.way(), s.fields["identityEndpoint"]
	c, secret := s.credentials(w), s.fields[w.secret]
	endpoint.text = c.IdentityEndpoint
	if secret.given() && c.IdentityEndpoint != "" {
		if err := s.sendable(secret, endpoint); err != nil {
			return nil, err
		}
	}
	if err := s.complete(c, w); err != nil {
		return nil, err
	}
	for _, v := range s.absent {
		s.note(v.at + ": is treated as empty, because " + v.err.Error())
	}
	a := &Access{Credentials: c, Origin: secret.at, endpoint: endpoint}
	if !strings.HasPrefix(a.Origin, s.object.Name) {
		a.Origin = s.object.Name + ": " + a.Origin
	}
	if s.isConfigured(secret) {
		for _, note := range s.configured.Notes {
			s.note(s.configured.Source + ": " + note)
		}
		if !s.reader.options.IdentityOverride {
			a.Wanted = s.ofConfigured(c, w)
		}
	}
	// The operator trusts the Secrets of drover's own namespace and of the allowed ones, so an endpoint in them need not be in the list of
	// allowed endpoints.
	trusted := append(slices.Clip(s.reader.options.AllowedNamespaces), s.reader.options.OwnNamespace)
	c.Vouched = endpoint.ref != nil && endpoint.ref.Kind == secretKind && slices.Contains(trusted, endpoint.ref.Namespace)
	c.Shown = s.shownInstead(endpoint)
	return a, nil
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

// isConfigured reports whether a value is that of the configured cloud.
func (m *merged) isConfigured(v value) bool { return v.given() && v.from == len(m.layers)-1 }

// way returns the way of signing in that drover uses: the first one of the highest layer that has any; the zero value when there is
// none. When a field for signing in cannot be read in some layer, two more rules apply. way uses no layer below that one: otherwise,
// a deleted Secret could move a Machine into the project of the configured cloud. And within its layer, it prefers a way whose secret
// could be read.
func (m *merged) way() way {
	lowest := len(m.layers)
	for _, a := range m.absent {
		if slices.ContainsFunc(ways, func(w way) bool { return a.field == w.user || a.field == w.secret }) {
			lowest = min(lowest, a.from)
		}
	}
	var best way
	at, complete := lowest+1, false
	for _, w := range ways {
		user, readable := m.fields[w.user], lowest < len(m.layers) && m.fields[w.secret].given()
		if user.given() && (user.from < at || user.from == at && readable && !complete) {
			best, at, complete = w, user.from, readable
		}
	}
	return best
}

// credentials returns the fields that the way uses as credentials. Fields that are not fields of a provider spec are those of the
// configured cloud, where its user or project is used, or its endpoint.
func (m *merged) credentials(w way) *client.Credentials {
	c := &client.Credentials{CACert: m.configured.CACert, Interfaces: m.configured.Interfaces}
	texts := settings.Texts(c)
	for _, field := range append([]string{"identityEndpoint", "region", w.user, w.secret}, w.uses...) {
		if into := texts[field]; into != nil {
			*into = m.fields[field].text
		}
	}
	c.IdentityEndpoint = strings.TrimSpace(c.IdentityEndpoint)
	id, name := m.fields["projectID"], m.fields["projectName"]
	project := id
	if !id.given() || name.given() && name.from < id.from {
		project, c.ProjectID = name, ""
	} else {
		c.ProjectName = ""
	}
	if w.user == "tokenId" && project.from > m.fields[w.user].from {
		// The token has a project of its own.
		c.ProjectID, c.ProjectName = "", ""
	}
	m.addConfigured(c, w, project)
	return c
}

// addConfigured adds the settings of the configured cloud that no field of a provider spec has: those of its user, of its project and of its
// endpoint, each where the credentials use it. project is the field that names the project.
func (m *merged) addConfigured(c *client.Credentials, w way, project value) {
	own := m.configured
	if c.Username != "" && m.isConfigured(m.fields["username"]) {
		c.UserID, c.UserDomainName, c.UserDomainID = own.UserID, own.UserDomainName, own.UserDomainID
	}
	if c.ProjectName != "" && m.isConfigured(project) {
		c.ProjectDomainName, c.ProjectDomainID = own.ProjectDomainName, own.ProjectDomainID
	}
	if m.isConfigured(m.fields[w.secret]) && (!project.given() || m.isConfigured(project)) {
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
func (m *merged) complete(c *client.Credentials, w way) error {
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
		if absent := m.absences(c); absent != "" {
			return fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: no way of signing in is complete: %s", m.layers[0].source, absent)
		}
		at := m.layers[0].source + "." + need.field
		if m.isConfigured(m.fields[w.user]) {
			at = m.atConfigured(need.field)
		}
		return fault.New(fault.Auth, fault.CodeCredentialsMissing, "%s: %s", at, need.what)
	}
	return nil
}

// absences describes the missing Secrets and keys that the sign-in needs, and other errors about them; empty when there are none.
func (m *merged) absences(c *client.Credentials) string {
	var texts, objects []string
	keys := map[string][]string{}
	for _, v := range m.absent {
		var missing *missingReference
		switch {
		case v.field == "region" || v.field == "domainName" || c.HasProject() && isProject(v.field):
		case !errors.As(v.err, &missing) || missing.object:
			texts = append(texts, v.err.Error())
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
func (m *merged) sendable(secret, endpoint value) error {
	for _, l := range m.layers[secret.from:] {
		own := l.endpoint
		if own.err != nil {
			return own.err
		}
		if !own.given() {
			continue
		}
		if client.SameEndpoint(own.text, endpoint.text) {
			break
		}
		return fault.New(fault.Auth, fault.CodeCredentialsMissing,
			"%s.identityEndpoint: %s has no credentials of its own, and the credentials of %s are for %s only; set credentials next to identityEndpoint",
			m.layers[0].source, shownEndpoint(endpoint), m.layers[secret.from].source, shownEndpoint(own))
	}
	if m.belongTogether(secret, endpoint) {
		return nil
	}
	return fault.New(fault.Auth, fault.CodeCredentialsMissing,
		"%s: %s is in namespace %s and names no endpoint, so drover sends its content to the configured cloud only, and not to %s; add the key identityEndpoint to that Secret and refer to that key",
		m.layers[0].source, secret.ref.object(), secret.ref.Namespace, shownEndpoint(endpoint))
}

// belongTogether reports whether a secret may be sent to an endpoint, depending on where both were found.
func (m *merged) belongTogether(secret, endpoint value) bool {
	switch {
	case secret.ref == nil, client.SameEndpoint(endpoint.text, m.configured.IdentityEndpoint):
		return true
	case endpoint.ref != nil && endpoint.ref.Kind == secretKind && endpoint.ref.object() == secret.ref.object():
		return true
	case secret.ref.Namespace != m.layers[secret.from].namespace:
		return false
	}
	// The secret is in the same namespace as the object that names it. Anyone who can write that object could read the secret
	// anyway.
	return endpoint.from >= secret.from || m.layers[endpoint.from].namespace == secret.ref.Namespace
}

// shownEndpoint returns an endpoint for a message, without quotes.
func shownEndpoint(endpoint value) string {
	if endpoint.ref != nil {
		return endpoint.shown()
	}
	return endpoint.text
}

// shownInstead returns the values that came from a Secret or ConfigMap, each with the text that messages show instead. It includes
// the endpoint's host, because connection errors name it.
func (m *merged) shownInstead(endpoint value) map[string]string {
	all := m.hidden(true)
	if endpoint.ref != nil {
		if u, err := url.Parse(endpoint.text); err == nil && u.Hostname() != "" {
			all[u.Host], all[u.Hostname()] = "its host", "its host"
		}
		all[client.NormalEndpoint(endpoint.text)] = endpoint.shown()
	}
	return all
}
