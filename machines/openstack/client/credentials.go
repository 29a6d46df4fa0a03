package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Credentials hold a cloud's endpoint and a user. The user signs in with an application credential (by its ID, or by its name and
// Username), with a password (Username) or with a token.
type Credentials struct {
	// IdentityEndpoint is Keystone's URL, with or without /v3.
	IdentityEndpoint string
	// Region is the region of the services; empty means the cloud's only region.
	Region string
	// Interfaces select the endpoints, in the order of preference: public (default), internal, admin.
	Interfaces []string
	// Places are services that are not in the place that the catalog and Region and Interfaces name.
	Places map[Service]Place

	// UserID and the domains of user and project, except for DomainName, which is the domain of both, can only be set by the
	// configured cloud, not by a Machine's spec. Username has no effect with a UserID, and a domain's name none with its ID.
	Username, UserID, Password         string
	DomainName                         string
	UserDomainName, UserDomainID       string
	ProjectDomainName, ProjectDomainID string
	ProjectName, ProjectID             string
	// TrustID is a trust whose project the token is for, instead of ProjectName and ProjectID.
	TrustID string

	ApplicationCredentialID, ApplicationCredentialName, ApplicationCredentialSecret string

	Token string

	// Vouched is true when the endpoint is set in a Secret of drover's own namespace or of an allowed namespace. The list of
	// allowed endpoints then need not contain the endpoint.
	Vouched bool
	// Shown maps values that came from a Secret or ConfigMap to the reference that messages show instead.
	Shown map[string]string

	// CACert is a PEM bundle of certificates to trust in addition to the system's certificates. Empty means that only the system's
	// certificates are trusted.
	CACert []byte
	// ClientCert and ClientKey are drover's own certificate and its key in PEM; empty means that there is none.
	ClientCert, ClientKey []byte

	// Source is where the credentials of the configured cloud were read, for messages, and Notes are its settings that have no
	// effect. Both are empty for other credentials.
	Source string   `json:"-"`
	Notes  []string `json:"-"`
}

// Place is where a service is. An empty field means that it is in the same place as the other services.
type Place struct {
	// URL is the service's URL, in place of the catalog's.
	URL        string
	Region     string
	Interfaces []string
}

// Method is a way of signing in.
type Method string

// The ways of signing in. ByNothing means that there are no credentials.
const (
	ByNothing               Method = ""
	ByApplicationCredential Method = "application credential"
	ByPassword              Method = "password"
	ByToken                 Method = "token"
)

// Method returns the way of signing in. An application credential takes precedence over a user, and a user over a token.
func (c *Credentials) Method() Method {
	switch {
	case c.ApplicationCredentialID != "" || c.ApplicationCredentialName != "":
		return ByApplicationCredential
	case c.Username != "" || c.UserID != "":
		return ByPassword
	case c.Token != "":
		return ByToken
	}
	return ByNothing
}

// describe returns who signs in and for which project, for error messages.
func (c *Credentials) describe() string {
	text := "by token"
	user := named(c.UserID, c.Username)
	if c.UserID == "" {
		user += " of domain " + named(domain(c.UserDomainID, c.UserDomainName, c.DomainName))
	}
	switch {
	case c.ApplicationCredentialID != "":
		return "by application credential " + c.ApplicationCredentialID
	case c.ApplicationCredentialName != "":
		return fmt.Sprintf("by application credential %q of user %s", c.ApplicationCredentialName, user)
	case c.Method() == ByPassword:
		text = "as user " + user
	}
	switch {
	case c.TrustID != "":
		text += ", for the project of trust " + c.TrustID
	case c.ProjectID != "":
		text += ", for project " + c.ProjectID
	case c.ProjectName != "":
		text += fmt.Sprintf(", for project %q of domain %s", c.ProjectName, named(domain(c.ProjectDomainID, c.ProjectDomainName, c.DomainName)))
	}
	return text
}

// named returns the text that shows an object of Keystone in a message: its ID or, when the ID is empty, its name in quotes.
func named(id, name string) string {
	if id != "" {
		return id
	}
	return fmt.Sprintf("%q", name)
}

// Key identifies the credentials without revealing them.
func (c *Credentials) Key() string {
	// Credentials have only texts, of which any is valid JSON.
	raw, _ := json.Marshal(c)
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// conceal removes secrets, and values that came from a Secret or ConfigMap, from a text. It returns the text unchanged when there
// are no credentials.
func (c *Credentials) conceal(text string) string {
	if c == nil {
		return text
	}
	hidden := map[string]string{}
	maps.Copy(hidden, c.Shown)
	for _, secret := range []string{c.Password, c.ApplicationCredentialSecret, c.Token, string(c.ClientKey)} {
		hidden[secret] = "***"
	}
	return Conceal(text, hidden)
}

// wordLength is the length up to which Conceal replaces a hidden value only where it is a whole word, so that a hidden 30 does
// not change 1300.
const wordLength = 3

// Conceal replaces each hidden value in a text by the text to show instead. It replaces longer values first.
func Conceal(text string, hidden map[string]string) string {
	values := slices.SortedFunc(maps.Keys(hidden), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, value := range values {
		switch {
		case value == "":
		case len(value) <= wordLength:
			word := regexp.MustCompile(`(^|[^\pL\pN])` + regexp.QuoteMeta(value) + `($|[^\pL\pN])`)
			text = word.ReplaceAllStringFunc(text, func(found string) string { return strings.Replace(found, value, hidden[value], 1) })
		default:
			text = strings.ReplaceAll(text, value, hidden[value])
		}
	}
	return text
}

// HasProject reports whether the credentials name a project for the token.
func (c *Credentials) HasProject() bool { return c.ProjectID+c.ProjectName+c.TrustID != "" }

// SameEndpoint reports whether two URLs name the same Keystone, ignoring the case of the host, a trailing slash and /v3.
func SameEndpoint(a, b string) bool { return NormalEndpoint(a) == NormalEndpoint(b) }

// NormalEndpoint returns a Keystone URL in the normal form that SameEndpoint compares.
func NormalEndpoint(endpoint string) string {
	trimmed := strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(endpoint), "/"), "/v3")
	u, err := url.Parse(trimmed)
	if err != nil {
		return trimmed
	}
	u.Host, u.Scheme = strings.ToLower(u.Host), strings.ToLower(u.Scheme)
	return u.String()
}

// authOptions converts the credentials for the client library.
func authOptions(c *Credentials) gophercloud.AuthOptions {
	o := gophercloud.AuthOptions{IdentityEndpoint: c.IdentityEndpoint}
	method := c.Method()
	switch method {
	case ByApplicationCredential:
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = c.ApplicationCredentialID, c.ApplicationCredentialSecret
		if c.ApplicationCredentialID != "" {
			return o
		}
		o.ApplicationCredentialName = c.ApplicationCredentialName
	case ByPassword:
		o.Password = c.Password
	case ByToken:
		o.TokenID = c.Token
	}
	if o.UserID = c.UserID; o.UserID == "" && method != ByToken {
		o.Username = c.Username
		o.DomainID, o.DomainName = domain(c.UserDomainID, c.UserDomainName, c.DomainName)
	}
	if method == ByApplicationCredential || method == ByToken && !c.HasProject() {
		return o
	}
	o.Scope = &gophercloud.AuthScope{TrustID: c.TrustID, ProjectID: c.ProjectID}
	if c.ProjectID == "" {
		o.Scope.ProjectName = c.ProjectName
		o.Scope.DomainID, o.Scope.DomainName = domain(c.ProjectDomainID, c.ProjectDomainName, c.DomainName)
	}
	return o
}

// domain returns either the ID or the name of a domain and leaves the other empty, because Keystone refuses a request with both. The
// default is the domain with the ID default.
func domain(id, name, shared string) (string, string) {
	if id == "" {
		id, name = "", cmp.Or(name, shared)
	} else {
		name = ""
	}
	if id == "" && name == "" {
		id = "default"
	}
	return id, name
}
