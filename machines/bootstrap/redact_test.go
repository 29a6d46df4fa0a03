package bootstrap

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestRedactRemovesSecretsFromAWholeConsoleOutput(t *testing.T) {
	t.Run("the secrets are removed, and the kubelet's error message stays (CAPI-25)", func(t *testing.T) {
		text := Redact([]byte("secret: tiger-tiger"), "token: abcdef.0123456789abcdef\nAuthorization: Bearer abcdefgh12345678\nmy secret is tiger-tiger\ndb_password=hunter2 x\n"+
			"-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\nkubelet: failed to start")
		for _, secret := range []string{"abcdef.0123456789abcdef", "abcdefgh12345678", "tiger-tiger", "hunter2", "MIIB"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is still in %q", secret, text)
			}
		}
		if !strings.Contains(text, "kubelet: failed to start") {
			t.Errorf("too much is removed: %q", text)
		}
	})
}

func TestRedactRemovesOnlySecretsFromConsoleOutput(t *testing.T) {
	rendered := func(in *Input) []byte {
		out, err := in.Render()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	foreign := []byte("#cloud-config\npassword: 'hunter2secret'\nwrite_files:\n- content: |\n    -----BEGIN PRIVATE KEY-----\n    MC4CAQAwBQYDK2VwBCIEIHxy\n    -----END PRIVATE KEY-----\n    API_KEY=k3yk3yk3y\n")
	for _, tt := range []struct {
		name    string
		data    []byte
		printed string
		secret  string
		keeps   string
	}{
		{"the bootstrap token", rendered(input("ubuntu", "{}")), "kubelet: token abcdef.0123456789abcdef refused", "0123456789abcdef", "kubelet: token"},
		{"the secret half of the token when it is printed without the ID", rendered(input("ubuntu", "{}")), "got 0123456789abcdef here", "0123456789abcdef", "got "},
		{"the token when the user data is an Ignition document", rendered(input("flatcar", "{}")), "got 0123456789abcdef here", "0123456789abcdef", " here"},
		{"the token when it is printed in base64 form", rendered(input("ubuntu", "{}")), "dump " + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef")), base64.StdEncoding.EncodeToString([]byte("0123456789abcdef")), "dump "},
		{"a proxy's password", rendered(siteInput("flatcar")), "curl: (5) pa55word", "pa55word", "curl: (5)"},
		{"a password that comes from an overwriteCloudConfig", foreign, "login: hunter2secret", "hunter2secret", "login:"},
		{"a line of a private key that is in the user data", foreign, "x MC4CAQAwBQYDK2VwBCIEIHxy x", "MC4CAQAwBQYDK2VwBCIEIHxy", "x "},
		{"an API key that is in the user data", foreign, "key k3yk3yk3y", "k3yk3yk3y", "key "},
		{"the password in a URL, even when the user data does not contain that password", nil, "GET http://me:secret99@proxy/ failed", "secret99", "@proxy/ failed"},
		{"a private key that is not in the user data", nil, "a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb", "abc", "\nb"},
		{"a private key whose end is missing", nil, "a\n-----BEGIN PRIVATE KEY-----\nabc", "abc", "a\n"},
		{"a bootstrap token that is not in the user data", nil, "zzzzzz.aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", ""},
		{"a service account's token", nil, "Authorization: Bearer eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl ok", "c2lnbmF0dXJl", " ok"},
		{
			"a file's content in the configuration that Ignition prints when it fails", nil, `"source": "data:text/plain;charset=utf-8;base64,dG9rZW46IGFiY2RlZi4wMTIz", "mode": 384`,
			"dG9rZW46IGFiY2RlZi4wMTIz", `", "mode": 384`,
		},
		{"the value of an environment variable whose name contains PASSWORD", nil, "OS_PASSWORD=swordfish done", "swordfish", " done"},
	} {
		t.Run("removes "+tt.name, func(t *testing.T) {
			got := Redact(tt.data, tt.printed)
			if strings.Contains(got, tt.secret) || !strings.Contains(got, Redacted) || !strings.Contains(got, tt.keeps) {
				t.Errorf("Redact() = %q", got)
			}
		})
	}
	t.Run("a text without secrets stays unchanged", func(t *testing.T) {
		userData, err := siteInput("ubuntu").Render()
		if err != nil {
			t.Fatal(err)
		}
		printed := "[  12.3] systemd[1]: Started kubelet.service - kubelet.\nopenstack:///0a1b2c3d-0000-4000-8000-0123456789ab\nFailed to pull registry.k8s.io/pause:3.10\n"
		if got := Redact(userData, printed); got != printed {
			t.Errorf("Redact() = %q", got)
		}
	})
}

func TestRedactRemovesSecretsThatTheMachinesUserDataContains(t *testing.T) {
	_, _, m := family()
	m.OwnerReferences = nil
	s, c := newSource(t, func(o *Options) { o.Site.HTTPProxy = "http://me:pr0xyword@proxy:3128" }, m)
	config := &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu", OverwriteCloudConfig: ptr.To("password: tiger-tiger\n<<BOOTSTRAP_TOKEN>>")}
	if _, err := s.UserData(t.Context(), m, config); err != nil {
		t.Fatal(err)
	}
	token, err := s.Tokens.Ensure(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Redact(t.Context(), m, config, "a tiger-tiger b "+token.Secret+" c pr0xyword d")
	if want := "a [redacted] b [redacted] c [redacted] d"; err != nil || got != want {
		t.Errorf("got %q, error %v", got, err)
	}
	if n := tokensIn(t, c); n != 1 {
		t.Errorf("%d tokens", n)
	}
}
