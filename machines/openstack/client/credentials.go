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

// Credentials name a cloud and a user of it. The user signs in by an application credential (by its ID, or by its name and
// Username), by password (Username) or by token.
type Credentials struct {
	// IdentityEndpoint is Keystone's URL, with or without /v3.
	IdentityEndpoint string
	// Region of the services; empty: the only one there is.
	Region string
	// Interface of the endpoints: public (default), internal or admin.
	Interface string

	Username, Password string
	// DomainName is the domain of both user and project. UserDomainName and ProjectDomainName, and the IDs, take its
	// place when they are set; only a configured cloud has them.
	DomainName, DomainID               string
	UserDomainName, UserDomainID       string
	ProjectDomainName, ProjectDomainID string
	ProjectName, ProjectID             string

	ApplicationCredentialID, ApplicationCredentialName, ApplicationCredentialSecret string

	Token string

	// Vouched: the endpoint stands in a Secret of drover's own or an allowed namespace, so it need not be on the list of
	// allowed ones.
	Vouched bool
	// Shown holds values that came from a Secret or ConfigMap, each with the reference that messages show in its place.
	Shown map[string]string

	// CACert is a PEM bundle to trust beside the system's; empty: the system's alone.
	CACert []byte
}

// Method is a way of signing in.
type Method string

// The ways of signing in. ByNothing means that no credentials are given.
const (
	ByNothing               Method = ""
	ByApplicationCredential Method = "application credential"
	ByPassword              Method = "password"
	ByToken                 Method = "token"
)

// Method returns the way of signing in. An application credential comes before a user, and a user before a token.
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

// who describes the user that signs in, for error messages.
func (c *Credentials) who() string {
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

// conceal removes from a text what must never be shown: secrets, and values that came from a Secret or ConfigMap. It changes
// nothing without credentials.
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

// wordLength is the length up to which a hidden value is looked for as a word of its own: 30 is hidden, and 1300 stays.
const wordLength = 3

// Conceal replaces each of the hidden values in a text by what is shown in its place. Longer values come first.
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

// HasProject reports whether the credentials name the project that the token is for.
func (c *Credentials) HasProject() bool { return c.ProjectID != "" || c.ProjectName != "" }

// SameEndpoint reports whether two URLs name the same Keystone: the case of the host, a slash at the end and /v3 make no
// difference.
func SameEndpoint(a, b string) bool { return NormalEndpoint(a) == NormalEndpoint(b) }

// NormalEndpoint returns a URL of Keystone in the form in which SameEndpoint compares it.
func NormalEndpoint(endpoint string) string {
	trimmed := strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(endpoint), "/"), "/v3")
	u, err := url.Parse(trimmed)
	if err != nil {
		return trimmed
	}
	u.Host, u.Scheme = strings.ToLower(u.Host), strings.ToLower(u.Scheme)
	return u.String()
}
