package bootstrap

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
)

func TestRedactOfAWholeConsole(t *testing.T) {
	t.Run("CAPI-25 the secrets are left out, and the cause is not", func(t *testing.T) {
		text := Redact([]byte("secret: tiger-tiger"), "token: abcdef.0123456789abcdef\nAuthorization: Bearer abcdefgh12345678\nmy secret is tiger-tiger\ndb_password=hunter2 x\n"+
			"-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\nkubelet: failed to start")
		for _, secret := range []string{"abcdef.0123456789abcdef", "abcdefgh12345678", "tiger-tiger", "hunter2", "MIIB"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is still in %q", secret, text)
			}
		}
		if !strings.Contains(text, "kubelet: failed to start") {
			t.Errorf("too much is left out: %q", text)
		}
	})
}

func TestRedact(t *testing.T) {
	foreign := input("ubuntu", "{}")
	foreign.Provider.OverwriteCloudConfig = ptr.To("#cloud-config\npassword: 'hunter2secret'\nwrite_files:\n- content: |\n    -----BEGIN PRIVATE KEY-----\n    MC4CAQAwBQYDK2VwBCIEIHxy\n    -----END PRIVATE KEY-----\n    API_KEY=k3yk3yk3y\n")
	for _, tt := range []struct {
		name    string
		in      *Input
		printed string
		secret  string
		keeps   string
	}{
		{"the bootstrap token", input("ubuntu", "{}"), "kubelet: token abcdef.0123456789abcdef refused", "0123456789abcdef", "kubelet: token"},
		{"its secret half alone", input("ubuntu", "{}"), "got 0123456789abcdef here", "0123456789abcdef", "got "},
		{"the token that stands in an Ignition document", input("flatcar", "{}"), "got 0123456789abcdef here", "0123456789abcdef", " here"},
		{"the token in base64", input("ubuntu", "{}"), "dump " + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef")), base64.StdEncoding.EncodeToString([]byte("0123456789abcdef")), "dump "},
		{"a proxy's password", siteInput("flatcar"), "curl: (5) pa55word", "pa55word", "curl: (5)"},
		{"a password of foreign user data", foreign, "login: hunter2secret", "hunter2secret", "login:"},
		{"a line of its private key", foreign, "x MC4CAQAwBQYDK2VwBCIEIHxy x", "MC4CAQAwBQYDK2VwBCIEIHxy", "x "},
		{"a key of its environment", foreign, "key k3yk3yk3y", "k3yk3yk3y", "key "},
		{"a password in a URL, whatever the user data", nil, "GET http://me:secret99@proxy/ failed", "secret99", "@proxy/ failed"},
		{"a private key, whatever the user data", nil, "a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb", "abc", "\nb"},
		{"a private key that is cut off", nil, "a\n-----BEGIN PRIVATE KEY-----\nabc", "abc", "a\n"},
		{"another bootstrap token", nil, "zzzzzz.aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", ""},
		{"a service account's token", nil, "Authorization: Bearer eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl ok", "c2lnbmF0dXJl", " ok"},
		{
			"a file of the configuration that Ignition prints when it fails", nil, `"source": "data:text/plain;charset=utf-8;base64,dG9rZW46IGFiY2RlZi4wMTIz", "mode": 384`,
			"dG9rZW46IGFiY2RlZi4wMTIz", `", "mode": 384`,
		},
		{"a password in a line of the log", nil, "OS_PASSWORD=swordfish done", "swordfish", " done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var userData []byte
			if tt.in != nil {
				var err error
				if userData, err = tt.in.Render(); err != nil {
					t.Fatal(err)
				}
			}
			got := Redact(userData, tt.printed)
			if strings.Contains(got, tt.secret) || !strings.Contains(got, Redacted) || !strings.Contains(got, tt.keeps) {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("what is no secret stays as it is", func(t *testing.T) {
		userData, err := siteInput("ubuntu").Render()
		if err != nil {
			t.Fatal(err)
		}
		printed := "[  12.3] systemd[1]: Started kubelet.service - kubelet.\nopenstack:///0a1b2c3d-0000-4000-8000-0123456789ab\nFailed to pull registry.k8s.io/pause:3.10\n"
		if got := Redact(userData, printed); got != printed {
			t.Errorf("got %q", got)
		}
	})
}
