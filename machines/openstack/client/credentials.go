package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Credentials hold a cloud's endpoint and a user. The user signs in with an application credential (by its ID, or by its name and
// Username), with a password (Username) or with a token.
type Credentials struct {
	// IdentityEndpoint is Keystone's URL, with or without /v3.
	IdentityEndpoint string
	// Region is the region of the services; empty means the cloud's only region.
	Region string
	// Interface selects the endpoints: public (default), internal or admin.
	Interface string

	Username, Password string
	// DomainName is the domain of both user and project. UserDomainName, ProjectDomainName and the domain IDs override it; only
	// the configured cloud can set these overrides, not a Machine's spec.
	DomainName, DomainID               string
	UserDomainName, UserDomainID       string
	ProjectDomainName, ProjectDomainID string
	ProjectName, ProjectID             string

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
	case c.Username != "":
		return ByPassword
	case c.Token != "":
		return ByToken
	}
	return ByNothing
}

// describeUser returns the user that signs in, for error messages.
func (c *Credentials) describeUser() string {
	switch {
	case c.ApplicationCredentialID != "":
		return "by application credential " + c.ApplicationCredentialID
	case c.ApplicationCredentialName != "":
		return fmt.Sprintf("by application credential %q of user %q", c.ApplicationCredentialName, c.Username)
	case c.Username != "":
		return fmt.Sprintf("as user %q", c.Username)
	}
	return "by token"
}

// Key identifies the credentials without revealing them.
func (c *Credentials) Key() string {
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Sprintf("%p", c)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// conceal removes secrets, and values that came from a Secret or ConfigMap, from a text. It returns the text unchanged when there
// are no credentials.
func (c *Credentials) conceal(text string) string {
	if c == nil {
		return text
	}
	hidden := maps.Clone(c.Shown)
	if hidden == nil {
		hidden = map[string]string{}
	}
	for _, secret := range []string{c.Password, c.ApplicationCredentialSecret, c.Token} {
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
func (c *Credentials) HasProject() bool { return c.ProjectID != "" || c.ProjectName != "" }

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
