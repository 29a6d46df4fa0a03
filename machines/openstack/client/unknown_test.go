package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestRefusalsWithATextThatDroverDoesNotKnow(t *testing.T) {
	text := ""
	c := newTestCloud(t, map[string]http.HandlerFunc{"GET /v2.1/servers/a": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, `{"conflictingRequest":{"code":409,"message":%q}}`, text)
	}})
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	s := c.session(t)
	refuse := func(say string) {
		t.Helper()
		if text = say; get(ctx, s, "servers/a") == nil {
			t.Fatal("it was not refused")
		}
	}
	count := func() float64 {
		return testutil.ToFloat64(s.unknown.count.WithLabelValues("compute", "GET servers", "409"))
	}

	t.Run("are counted each time, and texts of one form are logged once", func(t *testing.T) {
		for n := range 3 {
			refuse(fmt.Sprintf("Cell 'x%d' says no to request 0123456789abcdef0123456789abcde%d", n, n))
		}
		if count() != 3 || len(lines) != 1 || !strings.Contains(lines[0], "says no to request 0123456789abcdef0123456789abcde0") {
			t.Errorf("%v are counted, and logged are: %s", count(), lines)
		}
	})
	t.Run("are not counted when a row of the table knows the text", func(t *testing.T) {
		refuse("Instance a is locked")
		if count() != 3 || len(lines) != 1 {
			t.Errorf("%v are counted, and logged are: %s", count(), lines)
		}
	})
	t.Run("are logged without a value that errors must not show (F-10)", func(t *testing.T) {
		plain := ctx
		ctx = WithHiding(ctx, func(error) error { return errors.New("(hidden)") })
		refuse("The word s3cret is not welcome")
		ctx = plain
		if len(lines) != 2 || strings.Contains(lines[1], "s3cret") || !strings.Contains(lines[1], "(hidden)") {
			t.Errorf("logged: %s", lines)
		}
	})
	t.Run("fill no memory when each text differs: at most 100 are logged", func(t *testing.T) {
		for n := range 3 * mostTexts {
			refuse("odd " + strings.Repeat("x", n+1))
		}
		if len(lines) != mostTexts || len(s.unknown.logged) != mostTexts {
			t.Errorf("%d lines and %d texts, want %d", len(lines), len(s.unknown.logged), mostTexts)
		}
	})
}

func TestFaultsOfServersWithATextThatDroverDoesNotKnow(t *testing.T) {
	s := newTestCloud(t, nil).session(t)
	for _, text := range []string{"", "No valid host was found. ", "Something nobody has seen"} {
		s.NoteFault("id", http.StatusInternalServerError, text)
	}
	t.Run("are counted under the call BUILD and the code of the fault", func(t *testing.T) {
		if got := testutil.ToFloat64(s.unknown.count.WithLabelValues("compute", "BUILD", "500")); got != 1 {
			t.Errorf("%v are counted, want 1", got)
		}
	})
}
