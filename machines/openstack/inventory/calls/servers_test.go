package calls

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// idPrefix extends a single hexadecimal digit to an ID.
const idPrefix = "00000000-0000-4000-8000-00000000000"

// pagedCloud answers a list in pages of one server; failures holds the first answers for a marker.
type pagedCloud struct {
	ids      []string
	failures map[string][]int
	asked    []string
}

func (c *pagedCloud) RoundTrip(r *http.Request) (*http.Response, error) {
	if body := signedIn[r.Method+" "+r.URL.Path]; body != "" {
		status := http.StatusOK
		if r.Method == http.MethodPost {
			status = http.StatusCreated
		}
		return answer(r, status, body), nil
	}
	marker := r.URL.Query().Get("marker")
	c.asked = append(c.asked, strings.TrimPrefix(marker, idPrefix))
	status := http.StatusOK
	var body string
	if left := c.failures[strings.TrimPrefix(marker, idPrefix)]; len(left) > 0 {
		status, c.failures[strings.TrimPrefix(marker, idPrefix)] = left[0], left[1:]
		body = `{"badRequest":{"message":"marker not found"}}`
	} else {
		at := 0
		for n, id := range c.ids {
			if id == marker {
				at = n + 1
			}
		}
		body = fmt.Sprintf(`{"servers":[{"id":%q}]`, c.ids[at])
		if at+1 < len(c.ids) {
			body += fmt.Sprintf(`,"servers_links":[{"rel":"next","href":"http://the-cloud-calls-itself-so/servers/detail?limit=1000&marker=%s"}]`, c.ids[at])
		}
		body += "}"
	}
	return answer(r, status, body), nil
}

// signedIn are the answers before a list: the token, and the version of the compute service.
var signedIn = map[string]string{
	"POST /v3/auth/tokens": `{"token":{"issued_at":"2026-11-20T12:00:00Z","expires_at":"2026-11-21T12:00:00Z","project":{"id":"p"},
		"catalog":[{"type":"compute","endpoints":[{"interface":"public","region":"r","url":"http://cloud/v2.1"}]}]}}`,
	"GET /v2.1/": `{"version":{"version":"2.93"}}`,
}

func answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Date": {"Fri, 20 Nov 2026 12:00:00 GMT"}, "X-Subject-Token": {"t"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

func TestListServersReadsAllPages(t *testing.T) {
	for name, tc := range map[string]struct {
		failures map[string][]int
		asked    string
		class    fault.Class // empty means no error
	}{
		"returns all pages as one list with the cloud's time (CAPI-31, CAPI-35)": {nil, ",a,b", ""},
		"starts the list again when the marker of a page has vanished":           {map[string][]int{"b": {400}}, ",a,b,,a,b", ""},
		"fails when the marker of a page vanishes three times":                   {map[string][]int{"a": {400, 400, 400, 400}}, ",a,,a,,a", fault.Invalid},
		"fails when the cloud answers 500 for a page (CAPI-36)":                  {map[string][]int{"b": {500}}, ",a,b", fault.Transient},
		"fails without a retry when the first page is refused":                   {map[string][]int{"": {400}}, "", fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			c := &pagedCloud{ids: []string{idPrefix + "a", idPrefix + "b", idPrefix + "c"}, failures: tc.failures}
			rows, date, err := ListServers(t.Context(), c.session(t), time.Time{}, true)
			if got := strings.Join(c.asked, ","); got != tc.asked {
				t.Errorf("asked with markers %q, want %q", got, tc.asked)
			}
			if tc.class != "" {
				if !fault.Is(err, tc.class) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || len(rows) != 3 || !date.Equal(noon) {
				t.Fatalf("CAPI-35: got %d rows at %s, %v", len(rows), date, err)
			}
		})
	}
}

func TestListServersWithInvalidIDs(t *testing.T) {
	t.Run("omits servers with invalid IDs, because these servers could be stored as losses (F-16)", func(t *testing.T) {
		c := &pagedCloud{ids: []string{idPrefix + "a", strings.Repeat("x", 1<<10), idPrefix + "c"}}
		rows, _, err := ListServers(t.Context(), c.session(t), time.Time{}, true)
		if err != nil || len(rows) != 2 || rows[0].ID != idPrefix+"a" || rows[1].ID != idPrefix+"c" {
			t.Errorf("got %d rows, %v", len(rows), err)
		}
	})
}

// session returns a session at the cloud.
func (c *pagedCloud) session(t *testing.T) *client.Session {
	t.Helper()
	calls, err := client.New(client.Options{HTTP: c, Clock: clocktesting.NewFakeClock(noon), Configured: "http://cloud/v3"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := calls.Session(client.Credentials{IdentityEndpoint: "http://cloud/v3", Username: "u", Password: "p", ProjectID: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
