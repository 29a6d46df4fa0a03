package settings

import (
	"bytes"
	"context"
	"encoding/pem"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"

	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

var outside = flag.String("rows", filepath.Join("testdata", "rows"), "directory with a file credentials.tsv, and more rows in its directory credentials (docs/testing.md)")

// TestRowsOfAnotherDirectory reads the configured cloud of each row of a directory, and signs in to a simulated cloud with it. The flag -rows
// names another directory than testdata/rows.
func TestRowsOfAnotherDirectory(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(*outside, "credentials.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	values := standIns(t)
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		columns := strings.Split(line, "\t")
		t.Run(columns[0]+" "+columns[2], func(t *testing.T) {
			got := outcome(t, filepath.Join(*outside, columns[1]), values)
			t.Logf("reference: %s\ndrover: %s", columns[3], got)
			if wrong := got.against(columns[3]); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// result is what drover does with a row: refused at start, or the credentials and what came of listing the flavors with them.
type result struct {
	refused     error
	credentials client.Credentials
	region      string
	failed      error
}

func (r result) String() string {
	if r.refused != nil {
		return "refused: " + r.refused.Error()
	}
	text := fmt.Sprintf("region %s, interfaces %v", r.region, r.credentials.Interfaces)
	if r.failed != nil {
		text = "failed: " + r.failed.Error()
	}
	return text + "\nnamed: " + strings.Join(r.credentials.Notes, "; ")
}

// against compares the result with what the reference does.
func (r result) against(reference string) string {
	word := func(name string) string {
		_, rest, _ := strings.Cut(reference, name+" ")
		rest, _, _ = strings.Cut(rest, ",")
		return strings.TrimSuffix(strings.TrimSuffix(rest, ")"), "URL")
	}
	switch {
	case r.refused != nil:
		return ""
	case !strings.HasPrefix(reference, "signs in"):
		if r.failed == nil && strings.Contains(reference, "ConnectFailure") {
			return "the reference does not reach the cloud"
		}
		return ""
	case r.failed != nil && len(r.credentials.Notes) == 0:
		return "the reference signs in, and drover fails without having named a setting"
	case r.failed == nil && word("region") != "(none" && word("compute region") == "" && r.region != word("region"):
		return "the reference uses region " + word("region")
	case r.failed == nil && word("interface") == "internal" && !slices.Equal(r.credentials.Interfaces, []string{"internal"}):
		return "the reference uses interface internal"
	}
	return ""
}

// standIns returns what the rows write for values of the simulated cloud.
func standIns(t *testing.T) *strings.Replacer {
	t.Helper()
	cloud := sim.New(sim.Config{Seed: sim.SeedMetaKube})
	if err := cloud.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	secure := httptest.NewTLSServer(cloud.Handler())
	t.Cleanup(secure.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	c, err := Read(Source{Environ: cloud.Environment()})
	if err != nil {
		t.Fatal(err)
	}
	scope := signIn(t, c)
	u, err := url.Parse(cloud.AuthURL())
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(
		"${AUTH_URL}", cloud.AuthURL(), "${ROOT_URL}", strings.TrimSuffix(cloud.AuthURL(), "/v3"), "${HOST}", u.Host,
		"${TLS_URL}", secure.URL+"/identity/v3", "${CA}", string(ca),
		"${USER}", sim.MetaKubeUser, "${PASSWORD}", sim.MetaKubePassword, "${PROJECT}", sim.MetaKubeProject,
		"${USER_ID}", scope.User.ID, "${PROJECT_ID}", scope.ProjectID, "${TOKEN}", tokenOf(t, cloud.AuthURL()),
		"${APP_ID}", sim.MetaKubeAppCredentialID, "${APP_NAME}", sim.MetaKubeAppCredentialName, "${APP_SECRET}", sim.MetaKubeAppCredentialSecret,
	)
}

// tokenOf returns a token of the project.
func tokenOf(t *testing.T, authURL string) string {
	t.Helper()
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":%q,"password":%q,"domain":{"name":"Default"}}}},
		"scope":{"project":{"name":%q,"domain":{"name":"Default"}}}}}`, sim.MetaKubeUser, sim.MetaKubePassword, sim.MetaKubeProject)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, authURL+"/auth/tokens", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.Header.Get("X-Subject-Token")
}

// session returns a session of the credentials, with a client of its own.
func session(c client.Credentials) (*client.Session, error) {
	made, err := client.New(client.Options{Configured: c.IdentityEndpoint})
	if err != nil {
		return nil, err
	}
	return made.Session(c)
}

func signIn(t *testing.T, c client.Credentials) *client.Scope {
	t.Helper()
	s, err := session(c)
	if err != nil {
		t.Fatal(err)
	}
	scope, err := s.Scope(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// outcome reads the row in a directory and lists the flavors of its cloud.
func outcome(t *testing.T, row string, values *strings.Replacer) result {
	t.Helper()
	dir, from := t.TempDir(), Source{}
	files, err := os.ReadDir(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Join(row, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(values.Replace(string(raw)), "@DIR@", dir)
		if err := os.WriteFile(filepath.Join(dir, file.Name()), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		switch file.Name() {
		case "env":
			from.Environ = strings.Split(strings.TrimSpace(text), "\n")
		case "clouds.yaml":
			from.CloudsYAML, from.Cloud = filepath.Join(dir, "clouds.yaml"), "openstack"
		}
	}
	got := result{}
	if got.credentials, got.refused = Read(from); got.refused != nil {
		return got
	}
	s, err := session(got.credentials)
	if err != nil {
		got.failed = err
		return got
	}
	scope, err := s.Scope(t.Context())
	if got.failed = err; err != nil {
		return got
	}
	got.region = scope.Region
	got.failed = s.Do(t.Context(), client.Call{Service: client.Compute, Doing: "listing flavors"}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := flavors.ListDetail(api, nil).AllPages(ctx)
		return err
	})
	return got
}
