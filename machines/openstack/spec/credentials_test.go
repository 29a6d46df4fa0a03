package spec

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
)

func TestReadCredentialsFromAProviderSpecAndTheConfiguredCloud(t *testing.T) {
	const cloud = `{"identityEndpoint":"https://keystone:5000/v3","username":"u","password":"env-secret","projectName":"p","domainName":"d","region":"r"}`
	for name, tc := range map[string]struct {
		documents []string
		want      func(*client.Credentials) bool
		fails     string
	}{
		"uses the configured cloud's fields when the spec has no credentials (MC-11)": {[]string{`{}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByPassword && c.Password == "env-secret" && c.Region == "r"
		}, ""},
		"prefers the spec's tenantName to the configured projectName (MC-11)":                                 {[]string{`{"tenantName":"mine"}`, cloud}, func(c *client.Credentials) bool { return c.ProjectName == "mine" }, ""},
		"prefers a project ID in the spec to the configured project name (MC-11)":                             {[]string{`{"tenantID":"id"}`, cloud}, func(c *client.Credentials) bool { return c.ProjectID == "id" && c.ProjectName == "" }, ""},
		"reads fields that are empty in the spec from the configured cloud (MC-11)":                           {[]string{`{"username":"","password":"","tokenId":"","identityEndpoint":""}`, cloud}, func(c *client.Credentials) bool { return c.Username == "u" }, ""},
		"accepts another spelling of the configured endpoint":                                                 {[]string{`{"identityEndpoint":"HTTPS://KEYSTONE:5000/v3/"}`, cloud}, func(c *client.Credentials) bool { return c.Password == "env-secret" }, ""},
		"refuses to use the configured cloud's credentials with another endpoint (MC-12)":                     {[]string{`{"identityEndpoint":"https://evil:5000/v3"}`, cloud}, nil, "has no credentials of its own"},
		"refuses to use the configured password with another endpoint, even when the spec has a user (MC-12)": {[]string{`{"identityEndpoint":"https://evil:5000/v3","username":"u"}`, cloud}, nil, "has no credentials of its own"},
		"accepts another endpoint than the configured one when the spec has credentials of its own":           {[]string{`{"identityEndpoint":"https://other/v3","username":"x","password":"y","projectName":"z"}`, cloud}, func(c *client.Credentials) bool { return c.IdentityEndpoint == "https://other/v3" && c.Password == "y" }, ""},
		"accepts the spec's own credentials with the configured endpoint": {[]string{`{"username":"x","password":"y"}`, cloud}, func(c *client.Credentials) bool {
			return c.Username == "x" && c.Password == "y" && c.ProjectName == "p"
		}, ""},
		"prefers the spec's application credential to the configured user": {[]string{`{"applicationCredentialID":"a","applicationCredentialSecret":"s"}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByApplicationCredential && c.Password == "" && c.ProjectName == ""
		}, ""},
		"prefers the spec's user to the configured application credential": {[]string{`{"username":"x","password":"y","projectName":"p"}`, `{"identityEndpoint":"https://k","applicationCredentialID":"a","applicationCredentialSecret":"s"}`}, func(c *client.Credentials) bool { return c.Method() == client.ByPassword }, ""},
		"accepts the name of an application credential instead of its ID": {[]string{`{"applicationCredentialName":"a","applicationCredentialSecret":"s"}`, cloud}, func(c *client.Credentials) bool {
			return c.ApplicationCredentialName == "a" && c.Username == "u" && c.ApplicationCredentialID == ""
		}, ""},
		"accepts a token instead of a user with a password": {[]string{`{"tokenId":"t"}`, cloud}, func(c *client.Credentials) bool {
			return c.Method() == client.ByToken && c.Token == "t" && c.Password == ""
		}, ""},
		"refuses a spec without credentials when drover has no configured cloud":                       {[]string{`{}`, `{}`}, nil, "identityEndpoint: is missing"},
		"refuses a spec with an endpoint and no credentials when drover has no configured cloud":       {[]string{`{"identityEndpoint":"https://k"}`, `{}`}, nil, "there are no credentials"},
		"refuses a spec with a user and no password when drover has no configured cloud":               {[]string{`{"identityEndpoint":"https://k","username":"u"}`, `{}`}, nil, "password: is missing"},
		"refuses a spec with a user and a password and no project when drover has no configured cloud": {[]string{`{"identityEndpoint":"https://k","username":"u","password":"p"}`, `{}`}, nil, "projectName: is missing"},
		"ignores a tenantName that differs from projectName (F-116)":                                   {[]string{`{"tenantName":"a","projectName":"b"}`, cloud}, func(c *client.Credentials) bool { return c.ProjectName == "b" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var c *client.Credentials
			with, err := stack(t, tc.documents...).Access()
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

func TestTrailingSpaceOfAPassword(t *testing.T) {
	t.Run("a space at the end of a password is kept, and a line break after it is removed (F-40)", func(t *testing.T) {
		with, err := stack(t, `{"identityEndpoint":"https://k","username":"u","password":"p \n","projectName":"p"}`).Access()
		if err != nil || with.Credentials.Password != "p " {
			t.Errorf("got %+v, %v", with, err)
		}
	})
}

func TestWhatTheConfiguredCloudGivesToOtherCredentials(t *testing.T) {
	own := client.Credentials{
		IdentityEndpoint: "https://k/v3", Region: "r", UserID: "id", UserDomainID: "dom", Password: "env-secret", ProjectID: "p", TrustID: "t",
		Places: map[client.Service]client.Place{client.Compute: {URL: "https://nova"}}, ClientCert: []byte("cert"), ClientKey: []byte("key"),
		Source: "the configured cloud (a of clouds.yaml)", Notes: []string{"verify: has no effect"},
	}
	read := func(t *testing.T, document string, override bool) (*client.Credentials, []string, error) {
		t.Helper()
		s := stack(t, document)
		s.configured, s.reader.options.IdentityOverride = &own, override
		s.mergeConfigured()
		a, err := s.Access()
		if err != nil {
			return nil, s.Warnings(), err
		}
		return a.Credentials, s.Warnings(), nil
	}
	for name, tc := range map[string]struct {
		document string
		override bool
		want     func(c *client.Credentials) bool
	}{
		"the configured user signs in with everything that is set for it": {`{}`, false, func(c *client.Credentials) bool {
			return c.UserID == "id" && c.TrustID == "t" && len(c.Places) == 1 && len(c.ClientKey) > 0
		}},
		"places of services are those of the configured region only": {`{"region":"other"}`, false, func(c *client.Credentials) bool {
			return c.UserID == "id" && c.Region == "other" && len(c.Places) == 0 && len(c.ClientKey) > 0
		}},
		"credentials for another Keystone get no client certificate and no place of a service": {`{"identityEndpoint":"https://other","username":"u","password":"p","projectName":"x"}`, false, func(c *client.Credentials) bool {
			return c.UserID == "" && c.TrustID == "" && len(c.Places) == 0 && len(c.ClientCert)+len(c.ClientKey) == 0
		}},
		"a user of the spec's own is not the configured user's ID": {`{"username":"u","password":"p","projectName":"x"}`, false, func(c *client.Credentials) bool {
			return c.Username == "u" && c.UserID == "" && c.UserDomainID == "" && c.TrustID == "" && len(c.Places) == 1
		}},
		"a token of the spec's own is not for the configured project, and has no user": {`{"tokenId":"t"}`, false, func(c *client.Credentials) bool {
			return c.Method() == client.ByToken && !c.HasProject()
		}},
		"a token is for the project beside it": {`{"tokenId":"t","projectName":"x"}`, false, func(c *client.Credentials) bool {
			return c.Method() == client.ByToken && c.ProjectName == "x"
		}},
		"another project in place of the configured one replaces the trust": {`{"projectName":"x"}`, true, func(c *client.Credentials) bool {
			return c.UserID == "id" && c.ProjectName == "x" && c.ProjectID == "" && c.TrustID == ""
		}},
	} {
		t.Run(name+" (F-120)", func(t *testing.T) {
			if c, _, err := read(t, tc.document, tc.override); err != nil || !tc.want(c) {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
	t.Run("settings without effect are warnings where the configured cloud's secret is used, and only there (F-120)", func(t *testing.T) {
		_, notes, err := read(t, `{}`, false)
		if err != nil || len(notes) != 1 || notes[0] != own.Source+": verify: has no effect" {
			t.Errorf("got %q, %v", notes, err)
		}
		if _, notes, err := read(t, `{"username":"u","password":"p","projectName":"x"}`, false); err != nil || len(notes) != 0 {
			t.Errorf("got %q, %v", notes, err)
		}
	})
	t.Run("an error about the configured cloud names it and its key, not the Machine's spec (F-120)", func(t *testing.T) {
		own.ProjectID, own.TrustID = "", ""
		_, _, err := read(t, `{}`, false)
		if want := own.Source + ": project_name: is missing"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}
