package client

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpenStackCredentialsAreReadFromEnvironmentVariables(t *testing.T) {
	env := map[string]string{"OS_AUTH_URL": "https://k", "OS_USER_NAME": "u", "OS_PASSWORD": "p", "OS_TENANT_NAME": "t", "OS_USER_DOMAIN_NAME": "d"}
	c := CredentialsFromEnvironment(func(name string) string { return env[name] })
	if c.Username != "u" || c.ProjectName != "t" || c.DomainName != "d" || c.Method() != ByPassword {
		t.Fatalf("MC-11: got %+v", c)
	}
}

func TestCredentialsAreReadFromCloudsYAML(t *testing.T) {
	const file = "clouds:\n  one:\n    auth:\n      auth_url: https://k\n      application_credential_id: a\n      application_credential_secret: s\n    region_name: r\n    cacert: /etc/ca.pem\n"
	c, ca, err := CredentialsFromClouds([]byte(file), "")
	if err != nil || c.Method() != ByApplicationCredential || c.Region != "r" || ca != "/etc/ca.pem" {
		t.Fatalf("got %+v, %q, %v", c, ca, err)
	}
	if _, _, err := CredentialsFromClouds([]byte(file), "two"); err == nil || !strings.Contains(err.Error(), `no cloud "two"; it has: one`) {
		t.Fatalf("got %v", err)
	}
}

// Fields that drover does not read may have any form that OpenStack's clients accept. Environment variables do not override the
// file.
func TestFieldsOfCloudsYAMLThatDroverDoesNotReadAreIgnored(t *testing.T) {
	t.Setenv("OS_CLOUD", "other")
	t.Setenv("OS_REGION_NAME", "elsewhere")
	const file = "clouds:\n  one:\n    identity_api_version: 3\n    verify: false\n    regions: [r, {name: s}]\n    cacert: /missing.pem\n" +
		"    auth: {auth_url: 'https://k', username: u, password: 1234, project_name: p, allow_reauth: true}\n  two: {profile: vexxhost}\n"
	c, ca, err := CredentialsFromClouds([]byte(file), "one")
	want := Credentials{IdentityEndpoint: "https://k", Username: "u", Password: "1234", ProjectName: "p"}
	if diff := cmp.Diff(want, c); diff != "" || ca != "/missing.pem" || err != nil {
		t.Fatalf("(-want +got):\n%s, CA %q, %v", diff, ca, err)
	}
	if c, _, err := CredentialsFromClouds([]byte(file), "two"); err != nil || c.Method() != ByNothing {
		t.Fatalf("a cloud without auth: got %+v, %v", c, err)
	}
}
