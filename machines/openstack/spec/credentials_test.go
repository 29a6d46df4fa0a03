package spec

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
)

func TestReadCredentials(t *testing.T) {
	const cloud = `{"identityEndpoint":"https://keystone:5000/v3","username":"u","password":"env-secret","projectName":"p","domainName":"d","region":"r"}`
	for name, tc := range map[string]struct {
		documents []string
		want      func(*client.Credentials) bool
		fails     string
	}{
		"the configured cloud has all fields (MC-11)": {[]string{`{}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByPassword && c.Password == "env-secret" && c.Region == "r"
		}, ""},
		"the spec overrides the configured cloud under every alias (MC-11)":      {[]string{`{"tenantName":"mine"}`, cloud}, func(c *client.Credentials) bool { return c.ProjectName == "mine" }, ""},
		"a project ID overrides a name (MC-11)":                                  {[]string{`{"tenantID":"id"}`, cloud}, func(c *client.Credentials) bool { return c.ProjectID == "id" && c.ProjectName == "" }, ""},
		"empty fields use the next layer (MC-11)":                                {[]string{`{"username":"","password":"","tokenId":"","identityEndpoint":""}`, cloud}, func(c *client.Credentials) bool { return c.Username == "u" }, ""},
		"the same endpoint in another spelling":                                  {[]string{`{"identityEndpoint":"HTTPS://KEYSTONE:5000/v3/"}`, cloud}, func(c *client.Credentials) bool { return c.Password == "env-secret" }, ""},
		"another endpoint with the configured cloud's credentials (MC-12)":       {[]string{`{"identityEndpoint":"https://evil:5000/v3"}`, cloud}, nil, "has no credentials of its own"},
		"another endpoint with its own user and the configured password (MC-12)": {[]string{`{"identityEndpoint":"https://evil:5000/v3","username":"u"}`, cloud}, nil, "has no credentials of its own"},
		"another endpoint with its own credentials":                              {[]string{`{"identityEndpoint":"https://other/v3","username":"x","password":"y","projectName":"z"}`, cloud}, func(c *client.Credentials) bool { return c.IdentityEndpoint == "https://other/v3" && c.Password == "y" }, ""},
		"own credentials with the configured endpoint": {[]string{`{"username":"x","password":"y"}`, cloud}, func(c *client.Credentials) bool {
			return c.Username == "x" && c.Password == "y" && c.ProjectName == "p"
		}, ""},
		"an application credential before a user": {[]string{`{"applicationCredentialID":"a","applicationCredentialSecret":"s"}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByApplicationCredential && c.Password == "" && c.ProjectName == ""
		}, ""},
		"a user before a configured application credential": {[]string{`{"username":"x","password":"y","projectName":"p"}`, `{"identityEndpoint":"https://k","applicationCredentialID":"a","applicationCredentialSecret":"s"}`}, func(c *client.Credentials) bool { return c.Method() == client.ByPassword }, ""},
		"an application credential by name": {[]string{`{"applicationCredentialName":"a","applicationCredentialSecret":"s"}`, cloud}, func(c *client.Credentials) bool {
			return c.ApplicationCredentialName == "a" && c.Username == "u" && c.ApplicationCredentialID == ""
		}, ""},
		"a token": {[]string{`{"tokenId":"t"}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByToken && c.Token == "t" && c.Password == ""
		}, ""},
		"no field at all":           {[]string{`{}`, `{}`}, nil, "identityEndpoint: is missing"},
		"an endpoint only":          {[]string{`{"identityEndpoint":"https://k"}`, `{}`}, nil, "there are no credentials"},
		"a user without a password": {[]string{`{"identityEndpoint":"https://k","username":"u"}`, `{}`}, nil, "password: is missing"},
		"a user without a project":  {[]string{`{"identityEndpoint":"https://k","username":"u","password":"p"}`, `{}`}, nil, "projectName: is missing"},
		"conflicting aliases":       {[]string{`{"tenantName":"a","projectName":"b"}`, cloud}, nil, "conflicts with projectName"},
	} {
		t.Run(name, func(t *testing.T) {
			var c *client.Credentials
			with, err := readCredentials(t.Context(), stack(t, tc.documents...), credentialRules{configured: &client.Credentials{}, override: true})
			if err == nil {
				c = with.Credentials
			}
			switch {
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Fatalf("got %v, want %q", err, tc.fails)
			case tc.fails != "" && strings.Contains(err.Error(), "env-secret"):
				t.Fatalf("a secret is shown: %v", err)
			case tc.fails == "" && (err != nil || !tc.want(c)):
				t.Fatalf("got %+v, %v", c, err)
			}
		})
	}
}

func TestTrailingBlankOfAPassword(t *testing.T) {
	t.Run("is part of the password (F-40)", func(t *testing.T) {
		with, err := readCredentials(t.Context(), stack(t, `{"identityEndpoint":"https://k","username":"u","password":"p \n","projectName":"p"}`), credentialRules{configured: &client.Credentials{}, override: true})
		if err != nil || with.Credentials.Password != "p " {
			t.Errorf("got %+v, %v", with, err)
		}
	})
}
