package bootstrap

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Redacted is the text that replaces a secret.
const Redacted = "[redacted]"

// Patterns of secrets, wherever they occur in the output of a server.
var (
	anyToken      = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	anyWebToken   = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)
	anyPrivateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
	anyUserInfo   = regexp.MustCompile(`(?P<before>://)[^/\s:@'"]+:[^/\s@'"]+(?P<after>@)`)
)

// secretKey matches a key whose value is a secret, in any of the forms key: value, key=value and "key": "value".
var secretKey = regexp.MustCompile(`(?i)(?P<before>["']?[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|credential|api-?_?key|private-?_?key)[\w.-]*["']?\s*[:=]\s*["']?)([^\s"',}]+)`)

// bearer matches a token in the header of a request.
var bearer = regexp.MustCompile(`(?i)(?P<before>\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})`)

// dataURL matches the content of a file as Ignition writes it.
var dataURL = regexp.MustCompile(`data:[^,"\s]*,[^"\s]*`)

// Redact removes secrets from the output of a server. It removes the secrets in the server's user data, in plain, base64 and URL-escaped
// form, and text that looks like a secret (tokens, private keys, passwords in URLs). userData may be nil.
func Redact(userData []byte, printed string) string {
	for _, s := range secretsIn(userData) {
		printed = strings.ReplaceAll(printed, s, Redacted)
	}
	// Ignition prints its whole configuration when it fails, files included. The named groups before and after of a pattern stay.
	for _, pattern := range []*regexp.Regexp{dataURL, anyPrivateKey, anyWebToken, anyToken, anyUserInfo, secretKey, bearer} {
		printed = pattern.ReplaceAllString(printed, "${before}"+Redacted+"${after}")
	}
	return printed
}

// Redact removes the secrets of the Machine's user data from the output of its server (see the function Redact). It creates no token. When
// drover cannot read the user data any more, it removes only the token, the proxy's password and text that looks like a secret.
func (s *Source) Redact(ctx context.Context, m *v1alpha1.Machine, config *v1alpha1.ProviderConfig, printed string) (string, error) {
	token, err := s.Tokens.find(ctx, m.UID)
	if err != nil {
		return "", err
	}
	known := s.options.Site.HTTPProxy + "\n"
	if token != nil {
		known += tokenOf(token).String() + "\n"
	}
	var t text
	owners, err := OwnersOf(ctx, s.options.Control.GetClient(), m)
	if err == nil {
		t, err = s.foreign(ctx, m, owners, config)
	}
	var problem *Problem
	var waiting *Waiting
	if err != nil && !errors.As(err, &problem) && !errors.As(err, &waiting) {
		return "", err
	}
	return Redact([]byte(known), Redact([]byte(t.content), printed)), nil
}

// secretsIn returns the secrets in user data in every form in which they may be printed. The longest secrets come first, so that no part of
// a secret remains.
func secretsIn(userData []byte) []string {
	found := map[string]bool{}
	for _, plain := range readable(userData) {
		for _, s := range anyToken.FindAllString(plain, -1) {
			_, secret, _ := strings.Cut(s, ".")
			found[s], found[secret] = true, true
		}
		for _, s := range anyWebToken.FindAllString(plain, -1) {
			found[s] = true
		}
		for _, key := range anyPrivateKey.FindAllString(plain, -1) {
			for _, line := range strings.Fields(key) {
				found[line] = len(line) >= 16
			}
		}
		for _, pattern := range []*regexp.Regexp{secretKey, bearer} {
			for _, match := range pattern.FindAllStringSubmatch(plain, -1) {
				// Redacting values of fewer than 6 characters would garble ordinary words.
				found[match[2]] = len(match[2]) >= 6
			}
		}
		for _, match := range anyUserInfo.FindAllString(plain, -1) {
			_, password, _ := strings.Cut(strings.Trim(match, ":/@"), ":")
			found[password] = len(password) >= 4
		}
	}
	var out []string
	for s, yes := range found {
		if yes {
			out = append(out, s, base64.StdEncoding.EncodeToString([]byte(s)), url.QueryEscape(s))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(out)
}

// nested is how deep data URLs in user data are read. Ignition documents contain documents, which contain files.
const nested = 3

// readable returns user data as text, decompressed if necessary, and the content of the data URLs in it.
func readable(userData []byte) []string { return readableTo(nested, userData) }

func readableTo(depth int, userData []byte) []string {
	if isCompressed(userData) {
		if r, err := gzip.NewReader(bytes.NewReader(userData)); err == nil {
			// When the compressed user data is damaged, the part before the damage is still useful.
			userData, _ = io.ReadAll(io.LimitReader(r, 1<<22))
		}
	}
	out := []string{string(userData)}
	if depth == 0 {
		return out
	}
	for _, u := range dataURL.FindAllString(string(userData), -1) {
		head, content, _ := strings.Cut(u, ",")
		if strings.HasSuffix(head, ";base64") {
			if raw, err := base64.StdEncoding.DecodeString(content); err == nil {
				out = append(out, readableTo(depth-1, raw)...)
			}
		} else if raw, err := url.PathUnescape(content); err == nil {
			out = append(out, readableTo(depth-1, []byte(raw))...)
		}
	}
	return out
}
