package spec

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestErrorOfARefusedEndpoint(t *testing.T) {
	const url = "https://k.example:5000"
	secret := &reference{Kind: secretKind, Namespace: "n", Name: "s", Key: "k"}
	config := &reference{Kind: configMapKind, Namespace: "n", Name: "c", Key: "k"}
	for name, tc := range map[string]struct {
		endpoint   value
		class      fault.Class
		flag       string
		shows, not string
	}{
		"shows the refused URL and the flag that allows it (F-4)":                                     {value{text: url}, fault.Auth, "--allowed-endpoints=" + url, url, "Secret"},
		"shows the Secret's name and key instead of the URL when the URL is in a Secret (F-9, F-10)":  {value{text: url, ref: secret}, fault.Auth, "--secret-namespaces=n", "the value of Secret n/s, key k", "k.example"},
		"shows the ConfigMap's name and key instead of the URL when the URL is in a ConfigMap (F-10)": {value{text: url, ref: config}, fault.Auth, "--allowed-endpoints=URL", "the value of ConfigMap n/c, key k", "k.example"},
		"has the class Invalid and names no flag when the endpoint is not a URL":                      {value{text: "not a url"}, fault.Invalid, "", "not a URL like https://", "start drover"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.endpoint.at = "doc.identityEndpoint"
			_, flag, err := (&Access{endpoint: tc.endpoint}).Refuse()
			if !fault.Is(err, tc.class) || flag != tc.flag {
				t.Errorf("got %v, flag %q, want %s, %q", err, flag, tc.class, tc.flag)
			}
			if text := err.Error(); !strings.HasPrefix(text, "doc.identityEndpoint: ") || !strings.Contains(text, tc.shows) || strings.Contains(text, tc.not) {
				t.Errorf("got %q, want %q in it, and not %q", text, tc.shows, tc.not)
			}
		})
	}
}

func TestErrorOfARefusedSignInShowsTheSourceOfThePassword(t *testing.T) {
	refused := fault.New(fault.Auth, fault.CodeUnauthorized, "refused")
	a := Access{Origin: "Secret n/s, key password"}
	for name, tc := range map[string]struct {
		access Access
		err    error
		want   string
	}{
		"the error of a refused sign-in begins with the Secret and key from which the password was read":  {a, refused, "Secret n/s, key password: refused"},
		"an error of another kind, such as an exhausted quota, is returned unchanged":                     {a, fault.New(fault.Quota, fault.CodeUnknown, "full"), "full"},
		"the error of a refused sign-in is returned unchanged when the source of the password is unknown": {Access{}, refused, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.access.WithOrigin(tc.err); got.Error() != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("a nil error is returned as nil", func(t *testing.T) {
		if err := a.WithOrigin(nil); err != nil {
			t.Errorf("got %v", err)
		}
	})
}
