package client

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestEndlessListsAreRefused(t *testing.T) {
	for name, row := range map[string]string{
		"a list of small rows that always has another page is refused (F-8)": `{"id":"x"}`,
		"a list of large rows that always has another page is refused (F-8)": `{"id":"` + strings.Repeat("x", 16<<10) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			const rows = 1000
			page := strings.TrimSuffix(strings.Repeat(row+",", rows), ",")
			var pages atomic.Int64
			c := newTestCloud(t, map[string]http.HandlerFunc{"GET /v2.1/servers": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				// The list ends after 100 pages, so that the test also ends when the client does not stop reading.
				next := ""
				if pages.Add(1) < 100 {
					next = fmt.Sprintf(`{"rel":"next","href":"http://x/servers?marker=%d"}`, pages.Load())
				}
				_, _ = fmt.Fprintf(w, `{"servers":[%s],"servers_links":[%s]}`, page, next)
			}})
			_, err := List[map[string]string](t.Context(), c.session(t), Listing{Call: Call{Service: Compute, Doing: "listing"}, Path: "servers", Field: "servers"})
			if e := fault.Of(err); e == nil || e.Code != fault.CodeForeignAnswer {
				t.Errorf("got %v after %d pages", err, pages.Load())
			}
		})
	}
}
