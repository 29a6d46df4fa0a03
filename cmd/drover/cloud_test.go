package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"
)

func TestHowDroverReadsTheCredentialsOfTheCloud(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pem, _, err := cert.GenerateSelfSignedCertKey("keystone.example", nil, nil)
	must(t, err)
	ca, garbage := write("ca.pem", string(pem)), write("garbage.pem", "garbage")
	clouds := write("clouds.yaml", "clouds: {a: {auth: {auth_url: https://a, username: file, password: p}}, b: {auth: {auth_url: https://b}}}")
	env := []string{"OS_AUTH_URL=https://env", "OS_USERNAME=env", "OS_PASSWORD=p"}

	for _, tt := range []struct {
		name           string
		set            func(*options)
		env            []string
		endpoint, user string
		ca, wantErr    string
	}{
		{"reads the environment variables when no clouds.yaml is given", func(*options) {}, env, "https://env", "env", "", ""},
		{"has no credentials when no cloud is configured", func(*options) {}, nil, "", "", "", ""},
		{"reads only clouds.yaml when clouds.yaml and environment variables are given", func(o *options) { o.cloudsYAML, o.cloud = clouds, "b" }, env, "https://b", "", "", ""},
		{"reads the CA bundle that --cloud-ca names", func(o *options) { o.caBundle = ca }, env, "https://env", "env", string(pem), ""},
		{"refuses the name of a cloud that clouds.yaml does not contain", func(o *options) { o.cloudsYAML, o.cloud = clouds, "c" }, env, "", "", "", `no cloud "c"; it has: a, b`},
		{"refuses the path of a clouds.yaml that does not exist", func(o *options) { o.cloudsYAML = dir + "/none" }, env, "", "", "", "reading --clouds-yaml"},
		{"refuses the name of a cloud when no clouds.yaml is given", func(o *options) { o.cloud = "a" }, env, "", "", "", "--clouds-yaml is needed"},
		{"refuses the path of a CA bundle that does not exist", func(o *options) { o.caBundle = dir + "/none" }, env, "", "", "", "reading --cloud-ca"},
		{"refuses a --cloud-ca whose file contains no certificate (F-13)", func(o *options) { o.caBundle = garbage }, env, "", "", "", "--cloud-ca " + garbage + ": the file holds no certificate"},
		{"refuses an OS_CACERT whose file contains no certificate (F-13)", func(*options) {}, []string{"OS_CACERT=" + garbage}, "", "", "", "OS_CACERT " + garbage + ": the file holds no certificate"},
	} {
		t.Run("drover "+tt.name, func(t *testing.T) {
			o := defaults()
			tt.set(o)
			got, err := credentialsFrom(o, tt.env)
			if (tt.wantErr == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
			if got.IdentityEndpoint != tt.endpoint || got.Username != tt.user || string(got.CACert) != tt.ca {
				t.Errorf("got endpoint %q, user %q, CA %q", got.IdentityEndpoint, got.Username, got.CACert)
			}
		})
	}
}

func TestTheCAOfTheCloudIsReadAgain(t *testing.T) {
	certificate := func() string {
		pem, _, err := cert.GenerateSelfSignedCertKey("keystone.example", nil, nil)
		must(t, err)
		return string(pem)
	}
	first, second := certificate(), certificate()
	for name, set := range map[string]func(t *testing.T, o *options, ca, clouds string){
		"from the cacert of clouds.yaml (report 68)": func(_ *testing.T, o *options, _, clouds string) { o.cloudsYAML = clouds },
		"from the cacert of a clouds.yaml that OS_CLIENT_CONFIG_FILE names (report 68)": func(t *testing.T, _ *options, _, clouds string) {
			t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
			t.Setenv("OS_CLOUD", "a")
		},
		"from --cloud-ca beside clouds.yaml (report 68)": func(_ *testing.T, o *options, ca, clouds string) { o.cloudsYAML, o.caBundle = clouds, ca },
		"from OS_CACERT beside OS_* variables (report 68)": func(t *testing.T, _ *options, ca, _ string) {
			t.Setenv("OS_AUTH_URL", "https://keystone.example")
			t.Setenv("OS_CACERT", ca)
		},
		"from --cloud-ca beside OS_* variables (report 68)": func(t *testing.T, o *options, ca, _ string) {
			t.Setenv("OS_AUTH_URL", "https://keystone.example")
			o.caBundle = ca
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ca, clouds := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "clouds.yaml")
			must(t, os.WriteFile(clouds, []byte("clouds: {a: {cacert: "+ca+", auth: {auth_url: https://keystone.example, username: u, password: p}}}"), 0o600))
			o := defaults()
			set(t, o, ca, clouds)
			read := rereading(o)
			if read == nil {
				t.Fatal("nothing is read again")
			}
			for _, bundle := range []string{first, first + second, second} {
				must(t, os.WriteFile(ca, []byte(bundle), 0o600))
				if got, err := read(); err != nil || string(got.CACert) != bundle {
					t.Errorf("got a CA of %d bytes, error %v, want %d bytes", len(got.CACert), err, len(bundle))
				}
			}
			must(t, os.WriteFile(ca, []byte("half of a"), 0o600))
			if _, err := read(); err == nil {
				t.Error("a file without a certificate is read without an error")
			}
		})
	}
}
