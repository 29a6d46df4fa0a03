package inventory

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// idPrefix is the ID of a server without its last hexadecimal digit.
const idPrefix = "00000000-0000-4000-8000-00000000000"

// pagedCloud is a RoundTripper that answers a list in pages of one server. failures holds, for the marker of a page, the status codes
// with which the first requests for this page fail.
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

// signedIn holds the answers to the requests before a list: the sign-in, and the version document of the compute service.
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

func TestListOfServersWithSeveralPages(t *testing.T) {
	for name, tc := range map[string]struct {
		failures map[string][]int
		asked    string
		class    fault.Class // the class of the expected error; empty when none is expected
	}{
		"returns the servers of all pages and the cloud's time (CAPI-31, CAPI-35)":                        {nil, ",a,b", ""},
		"requests all pages again when Nova answers 400 because the server that the marker names is gone": {map[string][]int{"b": {400}}, ",a,b,,a,b", ""},
		"fails when Nova answers 400 for the same page three times":                                       {map[string][]int{"a": {400, 400, 400, 400}}, ",a,,a,,a", fault.Invalid},
		"fails when the cloud answers 500 for a page (CAPI-36)":                                           {map[string][]int{"b": {500}}, ",a,b", fault.Transient},
		"fails without a retry when Nova answers 400 for the first page":                                  {map[string][]int{"": {400}}, "", fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			c := &pagedCloud{ids: []string{idPrefix + "a", idPrefix + "b", idPrefix + "c"}, failures: tc.failures}
			rows, date, err := listServers(t.Context(), session(t, c), time.Time{}, true)
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

func TestListOfServersWithInvalidIDs(t *testing.T) {
	t.Run("omits a server with an invalid ID, so that drover stores no invalid ID when the server is missing later (F-16)", func(t *testing.T) {
		c := &pagedCloud{ids: []string{idPrefix + "a", strings.Repeat("x", 1<<10), idPrefix + "c"}}
		rows, _, err := listServers(t.Context(), session(t, c), time.Time{}, true)
		if err != nil || len(rows) != 2 || rows[0].ID != idPrefix+"a" || rows[1].ID != idPrefix+"c" {
			t.Errorf("got %d rows, %v", len(rows), err)
		}
	})
}

// session returns a session whose requests the cloud answers.
func session(t *testing.T, cloud http.RoundTripper) *client.Session {
	t.Helper()
	calls, err := client.New(client.Options{HTTP: cloud, Clock: clocktesting.NewFakeClock(noon), Configured: "http://cloud/v3"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := calls.Session(client.Credentials{IdentityEndpoint: "http://cloud/v3", Username: "u", Password: "p", ProjectID: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// largeCloud is a RoundTripper that answers a list with one page of 1000 servers, each with more than 10 KB of metadata. Before the end
// of the page, it calls arrived and waits for the test.
type largeCloud struct {
	arrived func()
	release chan struct{}
}

func (c *largeCloud) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/v2.1/servers/detail" {
		return (&pagedCloud{}).RoundTrip(r)
	}
	var row strings.Builder
	fmt.Fprintf(&row, `{"id":%q,"name":"a","status":"ACTIVE","metadata":{"machine-uid":"m"`, idPrefix+"a")
	for i := range 127 {
		fmt.Fprintf(&row, `,"key-%03d":%q`, i, strings.Repeat("x", 80))
	}
	row.WriteString("}}")
	parts := []io.Reader{strings.NewReader(`{"servers":[` + row.String())}
	for range 999 {
		parts = append(parts, strings.NewReader(","), strings.NewReader(row.String()))
	}
	resp := answer(r, http.StatusOK, "")
	resp.Body = io.NopCloser(io.MultiReader(append(parts, c, strings.NewReader("]}"))...))
	return resp, nil
}

// Read waits for the test, and is empty.
func (c *largeCloud) Read([]byte) (int, error) {
	c.arrived()
	<-c.release
	return 0, io.EOF
}

func TestLargePagesOfSeveralClouds(t *testing.T) {
	t.Run("eight clouds that have sent 100 MB of an unfinished page take less than 16 MiB of memory, and no metadata but tags stay (F-98)", func(t *testing.T) {
		const clouds = 8
		var arrived, done sync.WaitGroup
		release := make(chan struct{})
		before := heap()
		arrived.Add(clouds)
		for range clouds {
			s := session(t, &largeCloud{arrived: arrived.Done, release: release})
			done.Go(func() {
				rows, _, err := listServers(t.Context(), s, time.Time{}, true)
				if err != nil || len(rows) != 1000 || rows[999].Metadata != (state.Metadata{Machine: "m"}) {
					t.Errorf("got %d rows, %v", len(rows), err)
				}
			})
		}
		arrived.Wait()
		used := heap() - before
		close(release)
		done.Wait()
		if used > 16<<20 {
			t.Errorf("they take %d MiB", used>>20)
		}
	})
}

// heap returns the number of bytes of live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
