package settings

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/openstack/client"
)

// page has the table between two marks.
const page, begin, end = "../../../docs/openstack.md", "<!-- settings: written from machines/openstack/settings/keys.go -->\n", "<!-- end of settings -->"

func TestTheTableOfSettingsInOpenstackMd(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no marks %q and %q", page, begin, end)
	}
	want := tables()
	if *write {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Error("the table differs from the code; run: go test ./machines/openstack/settings -args -write")
	}
}

// tables returns the tables of settings. Keys about which they say the same are one row.
func tables() string {
	var auth, other, b strings.Builder
	auth.WriteString("\n| key of `auth` | field | what drover does |\n|---|---|---|\n")
	other.WriteString("\n| other key | field | what drover does |\n|---|---|---|\n")
	for i := 0; i < len(Keys); i++ {
		k, names := Keys[i], []string{Keys[i].Name}
		for i+1 < len(Keys) && Keys[i+1].Says == k.Says && Keys[i+1].Field == "" {
			i++
			names = append(names, Keys[i].Name)
		}
		table := &other
		if k.ways != "" {
			table = &auth
		}
		fmt.Fprintf(table, "| %s | %s | %s |\n", code(names...)+also(k.Aliases), code(k.Field), effect(k.Effect)+k.Says)
	}
	b.WriteString(auth.String() + other.String() + "\n| setting of one service | what drover does |\n|---|---|\n")
	for i := 0; i < len(Suffixes); i++ {
		s, names := Suffixes[i], []string{"…_" + Suffixes[i].Name}
		for i+1 < len(Suffixes) && Suffixes[i+1].Says == s.Says {
			i++
			names = append(names, "…_"+Suffixes[i].Name)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", code(names...)+also(s.Aliases), effect(s.Effect)+s.Says)
	}
	b.WriteString("\n| variable | what drover takes from it |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(Selectors)) {
		fmt.Fprintf(&b, "| %s | %s |\n", code(name), Selectors[name])
	}
	b.WriteString("\n")
	return b.String()
}

func effect(e Effect) string { return map[Effect]string{Named: "named: ", Refused: "refused: "}[e] }

// also returns other names of a key, in parentheses.
func also(aliases []string) string {
	if len(aliases) == 0 {
		return ""
	}
	return " (" + code(aliases...) + ")"
}

func code(names ...string) string {
	var all []string
	for _, name := range names {
		if name != "" {
			all = append(all, "`"+name+"`")
		}
	}
	return strings.Join(all, ", ")
}

func TestEveryFieldOfAProviderSpecAboutCredentialsHasAPlaceInTheCredentials(t *testing.T) {
	places := Texts(&client.Credentials{})
	for _, k := range Keys {
		if k.Field != "" && places[k.Field] == nil {
			t.Errorf("%s has no place", k.Field)
		}
		if FieldOf(k.Field) != k.Field {
			t.Errorf("%s is not a key of a Secret", k.Field)
		}
	}
	for _, field := range []string{"tenantName", "tenantID"} {
		if FieldOf(field) != field {
			t.Errorf("%s is not a key of a Secret", field)
		}
	}
}

func TestTheKeysOfASecretAreFieldsSettingsAndVariables(t *testing.T) {
	for key, want := range map[string]string{
		"authURL": "identityEndpoint", "OS_AUTH_URL": "identityEndpoint", "auth_url": "identityEndpoint", "username": "username",
		"OS_USER_NAME": "username", "OS_TENANT_NAME": "projectName", "tenant-id": "projectID", "OS_DOMAIN_NAME": "domainName", "userData": "", "password": "password",
		"application_credential_secret": "applicationCredentialSecret", "OS_REGION_NAME": "region", "OS_AUTH_TOKEN": "tokenId",
	} {
		t.Run(fmt.Sprintf("the key %s is the field %q", key, want), func(t *testing.T) {
			if got := FieldOf(key); got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}
