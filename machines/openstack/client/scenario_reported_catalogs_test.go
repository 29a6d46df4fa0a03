package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/fault"
)

// entry returns the entry of a catalog with one public endpoint. The region is JSON.
func entry(kind, region, url string) string {
	return fmt.Sprintf(`{"type":%q,"endpoints":[{"interface":"public","region":%s,"url":%q}]}`, kind, region, url)
}

func TestServicesOfCatalogsThatUsersOfOtherProgramsHaveReported(t *testing.T) {
	const nova = `{"type":"compute","endpoints":[{"interface":"public","region":"r","url":"http://nova/v2.1"},{"interface":"internal","region":"r","url":"http://int/v2.1"}]}`
	neutron := entry("network", `"r"`, "http://neutron:9696")
	for _, tt := range []struct {
		name    string
		creds   Credentials
		catalog []string
		service Service
		// url is the service's URL, for calls that succeed. says are parts of the error of the others.
		url  string
		says []string
	}{
		{name: "the error for a missing service names service and region (report 11)", creds: Credentials{Region: "r"}, catalog: []string{nova, entry("network", `"b"`, "http://b")}, service: Network,
			says: []string{"no network service", "region r"}},
		{name: "the error for a service with a region of its own names that region (report 11)", creds: Credentials{Region: "r", Places: map[Service]Place{Network: {Region: "b"}}}, catalog: []string{nova, neutron}, service: Network,
			says: []string{"no network service", "region b"}},
		{name: "the error for a service that has only another interface names the wanted one (report 11)", creds: Credentials{Region: "r", Interfaces: []string{"internal"}}, catalog: []string{nova, neutron}, service: Network,
			says: []string{"no network service", "interface internal", "region r"}},
		{name: "the error for a region in other case names the region of the cloud (report 12)", creds: Credentials{Region: "R"}, catalog: []string{nova}, service: Compute,
			says: []string{"region R is unknown", "the cloud has: r"}},
		{name: "the URL of an old version of Keystone in the catalog is not called (report 13)", creds: Credentials{Region: "r"}, catalog: []string{entry("identity", `"r"`, "http://127.0.0.1:1/v2.0"), nova}, service: Compute,
			url: "http://nova/v2.1/"},
		{name: "a Keystone without a region in the catalog prevents no sign-in (report 14)", creds: Credentials{Region: "r"}, catalog: []string{entry("identity", "null", "http://127.0.0.1:1/v3"), nova}, service: Compute,
			url: "http://nova/v2.1/"},
		{name: "a Keystone with an empty region does not count as a second region (report 14)", catalog: []string{entry("identity", `""`, "http://127.0.0.1:1/v3"), nova}, service: Compute,
			url: "http://nova/v2.1/"},
		{name: "volumev3 is used where the catalog has volumev2 before it (report 15)", creds: Credentials{Region: "r"}, catalog: []string{nova, entry("volumev2", `"r"`, "http://cinder/v2/p"), entry("volumev3", `"r"`, "http://cinder/v3/p")}, service: Volume,
			url: "http://cinder/v3/p/"},
		{name: "the official name of the volume service is enough (report 15)", creds: Credentials{Region: "r"}, catalog: []string{nova, entry("block-storage", `"r"`, "http://cinder/v3/p")}, service: Volume,
			url: "http://cinder/v3/p/"},
		{name: "the error names the volume service when the catalog has only volumev2 (report 15)", creds: Credentials{Region: "r"}, catalog: []string{nova, entry("volumev2", `"r"`, "http://cinder/v2/p")}, service: Volume,
			says: []string{"no volume service", "region r"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cloud := newTestCloud(t, map[string]http.HandlerFunc{"POST /v3/auth/tokens": signIns(`"project":{"id":"p"},"catalog":[`+strings.Join(tt.catalog, ",")+"]", nil)})
			now := clocktesting.NewFakeClock(time.Now())
			s := cloud.signedInBy(t, tt.creds, now)
			// The second call renews the token.
			for range 2 {
				err := s.Do(t.Context(), Call{Service: tt.service, Doing: "testing"}, func(context.Context, *gophercloud.ServiceClient) error { return nil })
				for _, part := range tt.says {
					if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), part) {
						t.Errorf("got %v, want %q in it", err, part)
					}
				}
				if tt.url == "" {
					return
				}
				scope, known := s.Known()
				if err != nil || known != nil || scope.Endpoint(tt.service) != tt.url {
					t.Fatalf("got %+v, %v, %v, want %s", scope, err, known, tt.url)
				}
				now.Step(22 * time.Hour)
			}
		})
	}
}

// signIns answers sign-ins with a token that has these fields and lasts for a day. It counts them.
func signIns(fields string, count *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n := int32(1)
		if count != nil {
			n = count.Add(1)
		}
		w.Header().Set("X-Subject-Token", fmt.Sprint("token-", n))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":{"issued_at":"2026-11-20T12:00:00Z","expires_at":"2026-11-21T12:00:00Z",%s}}`, fields)
	}
}

// signedInBy returns a session for a user with these credentials.
func (c *testCloud) signedInBy(t *testing.T, creds Credentials, now *clocktesting.FakeClock) *Session {
	t.Helper()
	calls, err := New(Options{Configured: c.URL + "/v3", Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	creds.IdentityEndpoint, creds.Username, creds.Password = c.URL+"/v3", "u", "p"
	s, err := calls.Session(creds)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestATokenWithoutAProject(t *testing.T) {
	t.Run("leads to an error about the project in the credentials, and not about the empty catalog (report 6)", func(t *testing.T) {
		cloud := newTestCloud(t, map[string]http.HandlerFunc{"POST /v3/auth/tokens": signIns(`"catalog":[]`, nil)})
		err := get(t.Context(), cloud.signedInBy(t, Credentials{}, clocktesting.NewFakeClock(time.Now())), "servers")
		if !fault.Is(err, fault.Auth) || !strings.Contains(err.Error(), "set the project in the credentials") || strings.Contains(err.Error(), "catalog has no") {
			t.Errorf("got %v", err)
		}
	})
}

// refusing answers a request with the handler next if its token is in accepted, and with 401 otherwise.
func refusing(accepted *atomic.Value, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Auth-Token") != accepted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"error":{"code":401,"title":"Unauthorized","message":"The request you have made requires authentication."}}`)
			return
		}
		next(w, r)
	}
}

func TestATokenThatTheCloudRefusesInTheMiddleOfAListOfManyPages(t *testing.T) {
	t.Run("is renewed once, by the password and not by the token, and each row of the list is returned once (report 2, report 4)", func(t *testing.T) {
		var count atomic.Int32
		var sent []string
		var accepted atomic.Value
		accepted.Store("token-1")
		cloud := newTestCloud(t, nil)
		answer := signIns(`"project":{"id":"p"},"catalog":[`+entry("compute", `"r"`, cloud.compute)+"]", &count)
		cloud.handlers = map[string]http.HandlerFunc{
			"POST /v3/auth/tokens": func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent = append(sent, r.Header.Get("X-Auth-Token")+string(body))
				answer(w, r)
			},
			"GET /v2.1/servers": refusing(&accepted, func(w http.ResponseWriter, r *http.Request) {
				page := len(r.URL.Query().Get("marker"))
				if page == 2 {
					accepted.Store("token-2")
				}
				next := ""
				if page < 5 {
					next = fmt.Sprintf(`{"rel":"next","href":"http://x/servers?marker=%s"}`, strings.Repeat("x", page+1))
				}
				_, _ = fmt.Fprintf(w, `{"servers":[{"id":"%d"}],"servers_links":[%s]}`, page, next)
			}),
		}
		all, err := List[map[string]string](t.Context(), cloud.signedInBy(t, Credentials{}, clocktesting.NewFakeClock(time.Now())), Listing{Call: Call{Service: Compute, Doing: "listing"}, Path: "servers", Field: "servers"})
		if err != nil || count.Load() != 2 {
			t.Fatalf("%d sign-ins, %v", count.Load(), err)
		}
		for _, body := range sent {
			if !strings.Contains(body, `"methods":["password"]`) || strings.Contains(body, "token-1") {
				t.Errorf("a sign-in sends %s", body)
			}
		}
		got := ""
		for _, row := range all {
			got += row["id"]
		}
		if got != "012345" {
			t.Errorf("the list has the rows %s, want 012345", got)
		}
	})
}

func TestManyCallsWhoseTokenIsRefusedAtTheSameTime(t *testing.T) {
	const callers = 20
	for name, refused := range map[string]bool{
		"share one sign-in, and all of them succeed (report 3)":                                  false,
		"share one sign-in that Keystone refuses, and all of them end with its error (report 3)": true,
	} {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int32
			var accepted atomic.Value
			accepted.Store("token-1")
			cloud := newTestCloud(t, nil)
			good := signIns(`"project":{"id":"p"},"catalog":[`+entry("compute", `"r"`, cloud.compute)+"]", &count)
			cloud.handlers = map[string]http.HandlerFunc{
				"POST /v3/auth/tokens": func(w http.ResponseWriter, r *http.Request) {
					if refused && count.Load() > 0 {
						count.Add(1)
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					good(w, r)
				},
				"GET /v2.1/servers": refusing(&accepted, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"servers":[]}`) }),
			}
			s := cloud.signedInBy(t, Credentials{}, clocktesting.NewFakeClock(time.Now()))
			if err := get(t.Context(), s, "servers"); err != nil {
				t.Fatal(err)
			}
			accepted.Store("token-2")
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					if err := get(t.Context(), s, "servers"); refused != fault.Is(err, fault.Auth) || !refused && err != nil {
						t.Errorf("got %v", err)
					}
				})
			}
			all.Wait()
			if count.Load() != 2 {
				t.Errorf("%d sign-ins, want one after the first", count.Load())
			}
		})
	}
}

func TestTheErrorOfACallThatIsRefusedAgainAfterAnotherSignIn(t *testing.T) {
	t.Run("is one line of bounded length that names the call once, and more such calls lead to no sign-in without end (report 1, report 5)", func(t *testing.T) {
		var count, asked atomic.Int32
		cloud := newTestCloud(t, nil)
		cloud.handlers = map[string]http.HandlerFunc{
			"POST /v3/auth/tokens": signIns(`"project":{"id":"p"},"catalog":[`+entry("compute", `"r"`, cloud.compute)+"]", &count),
			"GET /v2.1/servers": func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = fmt.Fprintf(w, `{"error":{"code":401,"title":"Unauthorized","message":"%s"}}`, strings.Repeat(`refused\n`, 10_000))
			},
		}
		s := cloud.signedInBy(t, Credentials{}, clocktesting.NewFakeClock(time.Now()))
		err := get(t.Context(), s, "servers")
		if !fault.Is(err, fault.Auth) || count.Load() != 2 || asked.Load() != 2 {
			t.Fatalf("%d sign-ins, %d calls: %v", count.Load(), asked.Load(), err)
		}
		for range 20 {
			if err := get(t.Context(), s, "servers"); !fault.Is(err, fault.Auth) {
				t.Errorf("got %v", err)
			}
		}
		if count.Load() != 2 || asked.Load() != 22 {
			t.Errorf("after 20 more calls: %d sign-ins, %d calls", count.Load(), asked.Load())
		}
		if text := err.Error(); len(text) > 4096 || strings.Contains(text, "\n") || strings.Count(text, "/servers") != 1 {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	})
}

func TestAComputeURLThatEndsWithTheProject(t *testing.T) {
	t.Run("gets the project in each call, and the version document is the one above the project (report 10)", func(t *testing.T) {
		version, documents := "", 0
		cloud := newTestCloud(t, map[string]http.HandlerFunc{
			"GET /v2.1/": func(w http.ResponseWriter, _ *http.Request) {
				documents++
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, `{"version":{"id":"v2.1","version":"2.90","min_version":"2.1"}}`)
			},
			"GET /v2.1/8a1f/servers": func(w http.ResponseWriter, r *http.Request) {
				version = r.Header.Get("X-OpenStack-Nova-API-Version")
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, `{"servers":[{"id":"1"}]}`)
			},
		})
		cloud.compute += "/8a1f"
		all, err := List[map[string]string](t.Context(), cloud.session(t), Listing{Call: Call{Service: Compute, Doing: "listing", Version: VersionServers}, Path: "servers", Field: "servers"})
		if err != nil || len(all) != 1 || version != VersionServers.wanted || documents != 1 {
			t.Errorf("%v, %v, microversion %q, %d version documents", all, err, version, documents)
		}
	})
}
