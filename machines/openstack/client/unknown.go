package client

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
)

// mostTexts is how many different unknown texts are logged. The counter counts all of them.
const mostTexts = 100

// unknownTexts counts the refusals and faults whose text no row of the table knows, and logs each text once.
type unknownTexts struct {
	count *prometheus.CounterVec

	mu     sync.Mutex
	logged map[string]bool
}

func newUnknownTexts() *unknownTexts {
	return &unknownTexts{
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_openstack_unknown_refusals_total",
			Help: "Refusals of OpenStack with a text that drover does not know; call is the verb and the collection, or BUILD for the fault of a server in ERROR; code is the HTTP status or the code of the fault.",
		}, []string{"service", "call", "code"}),
		logged: map[string]bool{},
	}
}

// ids matches the parts of a text in which two texts of the same form differ: IDs, names in quotes and numbers.
var ids = regexp.MustCompile(`[0-9a-f]{8}[0-9a-f-]{24,}|'[^']*'|"[^"]*"|\d+`)

// note counts an answer, and logs its error if no text of the same form was logged before.
func (u *unknownTexts) note(to logr.Logger, a *answer, err error) {
	code := ""
	if http.StatusText(a.status) != "" {
		code = strconv.Itoa(a.status)
	}
	call := a.call.verb
	if a.call.collection != "" {
		call += " " + printable(a.call.collection)
	}
	u.count.WithLabelValues(string(a.service), call, code).Inc()
	u.mu.Lock()
	defer u.mu.Unlock()
	form := call + " " + code + " " + ids.ReplaceAllString(fault.Cut(a.text, fault.MaxShort), "#")
	if u.logged[form] || len(u.logged) >= mostTexts {
		return
	}
	u.logged[form] = true
	to.Info("OpenStack refused something with a text that drover does not know; the class of the failure is a guess",
		"class", string(fault.Of(err).Class), "error", err.Error())
}

type hidingKey struct{}

// WithHiding returns a context for calls whose errors may repeat values that came from a Secret or ConfigMap. hide returns an error
// without these values.
func WithHiding(ctx context.Context, hide func(error) error) context.Context {
	return context.WithValue(ctx, hidingKey{}, hide)
}

// explain returns the error for a failed call of the session, with its class, and notes a text that no row of the table knows.
func (s *Session) explain(ctx context.Context, c Call, err error) error {
	err = classify(c, err, &s.creds)
	if a := answerTo(c, err); a != nil && a.pause == 0 && a.row().fallback {
		shown := err
		if hide, ok := ctx.Value(hidingKey{}).(func(error) error); ok {
			shown = hide(err)
		}
		s.unknown.note(log.FromContext(ctx), a, shown)
	}
	return err
}

// NoteFault counts and logs the fault of a server in ERROR if no row of the table knows it.
func (s *Session) NoteFault(serverID string, code int, text string) {
	if text == "" || !faultRow(code, text).fallback {
		return
	}
	a := readFault(code, text)
	a.status = code
	s.unknown.note(log.Log, a, ServerFault(serverID, code, text))
}
