package machine_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestThePageOfWhatMachinesWaitFor(t *testing.T) {
	b := newBench(t, nil)
	page := func() string {
		w := httptest.NewRecorder()
		b.machine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/plans/machines", nil))
		return w.Body.String()
	}
	shows := func(t *testing.T, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if got := page(); !strings.Contains(got, part) {
				t.Errorf("the page is %s, want it to contain %q", got, part)
			}
		}
	}
	inOrder(t, "shows the message of condition Ready (F-114)", func(t *testing.T) {
		b.pass()
		b.wait(2 * time.Minute)
		b.pass()
		c := find(b.read(), v1alpha1.ConditionReady)
		if c.Message == "" {
			t.Fatalf("the condition is %+v", c)
		}
		shows(t, `"reason":"`+c.Reason+`"`, c.Message)
	})
	inOrder(t, "shows that a Machine is paused, which drover does not write (F-114)", func(t *testing.T) {
		m := b.read()
		m.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		b.update(m)
		shows(t, `"reason":"Paused"`, "pauses this Machine")
	})
	inOrder(t, "shows nothing of a Machine that waits for nothing (F-114)", func(t *testing.T) {
		b = joined(t, nil)
		if got := strings.TrimSpace(page()); got != "[]" {
			t.Errorf("the page is %s", got)
		}
	})
}
