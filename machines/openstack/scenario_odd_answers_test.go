package openstack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestVersionDocumentOfNovaThatIsSomethingElse(t *testing.T) {
	t.Parallel()
	page := http.Header{"Content-Type": {"text/html"}}
	faults := map[string]sim.Fault{
		"a redirect to a sign-in page": {Status: http.StatusFound, Header: http.Header{"Location": {"https://sign-in.example/"}}},
		"an HTML page with status 200": {Status: http.StatusOK, Header: page, Body: "<html><body>welcome</body></html>"},
		"a JSON list with status 200":  {Status: http.StatusOK, Body: `[]`},
		"no version with status 200":   {Status: http.StatusOK, Body: `{"version": null}`},
	}
	for _, status := range []int{300, 400, 401, 403, 404, 405, 406, 410, 418, 501, 505} {
		faults[fmt.Sprint("status ", status)] = sim.Fault{Status: status}
		page := sim.ProxyPage("", status)
		faults[fmt.Sprint("a proxy's page with status ", status)] = page
	}
	for name, f := range faults {
		t.Run(name+" does not prevent the creation of a server (F-110)", func(t *testing.T) {
			b := newDirectBench(t)
			f.Service, f.Call = "compute", "GET /v2.1"
			b.sim.Inject(f)
			b.restart()
			began := b.clock.Now()
			b.active(newMachine(t, "a", seedFields()))
			if took := b.clock.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprintf("status %d delays calls for a minute, and then the base version is used (F-110)", status), func(t *testing.T) {
			b := newDirectBench(t)
			b.sim.Inject(sim.ProxyPage("GET /v2.1", status))
			b.restart()
			i := b.instance(newMachine(t, "a", seedFields()))
			b.pass(20 * time.Second)
			if f, err := i.Observe(b.ctx); err == nil && f.Synced {
				t.Error("the servers were listed without the version document, which may come soon")
			}
			b.active(newMachine(t, "a", seedFields()))
		})
	}
	t.Run("the document is read again later, and then the features of newer microversions can be used (F-110)", func(t *testing.T) {
		b := newDirectBench(t)
		mend := b.sim.Inject(sim.Fault{Service: "compute", Call: "GET /v2.1", Status: http.StatusBadRequest})
		b.restart()
		i := b.synced(newMachine(t, "a", seedFields().with("tags", []string{"plain"})))
		_, err := b.make(i)
		if e := fault.Of(err); e == nil || !strings.Contains(e.Message, "shows no microversions") {
			t.Fatalf("got %v", err)
		}
		mend()
		b.eventually("the server is created", func() bool { _, err := b.make(i); return err == nil })
	})
}

func TestUnauthorizedAnswersThatANewTokenDoesNotPrevent(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{
		"of one service": {Service: "image", Status: http.StatusUnauthorized},
		"of one call":    {Call: "POST /ports", Status: http.StatusUnauthorized},
	} {
		t.Run("lead to one sign-in in five minutes, and the error names method and path: "+name+" (F-110)", func(t *testing.T) {
			b := newBench(t)
			i := b.synced(newMachine(t, "a", seedFields()))
			mend := b.sim.Inject(f)
			b.sim.ForgetCalls()
			var err error
			for range 20 {
				err = i.Prepare(b.ctx)
				b.clock.Step(10 * time.Second)
			}
			if got := b.calls("POST /auth/tokens"); got != 1 {
				t.Errorf("%d sign-ins, want 1", got)
			}
			path := "POST /network/v2.0/ports"
			if f.Service != "" {
				path = "GET /image/v2/images"
			}
			if e := fault.Of(err); e == nil || e.Class != fault.Auth || !strings.Contains(e.Message, path) {
				t.Errorf("got %v, want an Auth error that names %s", err, path)
			}
			if f, err := i.Observe(b.ctx); err != nil || !f.Synced {
				t.Errorf("other calls fail, too: %+v, %v", f, err)
			}
			mend()
			if err := i.Prepare(b.ctx); err != nil {
				t.Errorf("after the end of the refusals: %v", err)
			}
		})
	}
	t.Run("do not prevent the renewal of a token that is revoked later (F-110)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /ports", Status: http.StatusUnauthorized, Times: 2})
		if err := i.Prepare(b.ctx); !fault.Is(err, fault.Auth) {
			t.Fatalf("got %v", err)
		}
		b.sim.RevokeTokens()
		b.eventually("the ports are created", func() bool { return i.Prepare(b.ctx) == nil })
	})
}
