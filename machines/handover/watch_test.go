package handover

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestTheWebhooksAreCheckedWhenTheAPIServerRefusesAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := events.NewFakeRecorder(9)
		c := fake.NewClientBuilder().Build()
		refusals := NewRefusals()
		w, err := NewWatch(WatchOptions{Reader: c, Events: recorder, Clock: clock.RealClock{}, Refusals: refusals})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = w.Start(t.Context()) }()
		time.Sleep(time.Minute)
		if err := c.Create(t.Context(), hook()); err != nil {
			t.Fatal(err)
		}
		transport := refusals.Watch(answers{http.StatusInternalServerError, `Internal error occurred: failed calling webhook "machines.machine-controller.kubermatic.io": no endpoints available`})
		answer, err := transport.RoundTrip(&http.Request{Method: http.MethodPatch})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if text, err := io.ReadAll(answer.Body); err != nil || !strings.HasSuffix(string(text), "no endpoints available") {
			t.Errorf("the client receives %q, %v; want the whole answer", text, err)
		}
		time.Sleep(time.Second)
		if n := len(recorder.Events); n != 1 {
			t.Errorf("a second after the API server has refused a write there are %d Events about the webhook, want 1 (F-103)", n)
		}
	})
}

func TestOtherAnswersOfTheAPIServerCauseNoCheckOfTheWebhooks(t *testing.T) {
	for name, answer := range map[string]answers{
		"a write that succeeds causes no check (F-103)":              {http.StatusOK, "failed calling webhook"},
		"a write that a webhook has denied causes no check (F-103)":  {http.StatusForbidden, `admission webhook "x" denied the request`},
		"a failure of the API server itself causes no check (F-103)": {http.StatusInternalServerError, "etcdserver: request timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			refusals := NewRefusals()
			response, err := refusals.Watch(answer).RoundTrip(&http.Request{Method: http.MethodPatch})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if len(refusals) > 0 {
				t.Errorf("%d refusals, want none", len(refusals))
			}
		})
	}
}

// answers is a RoundTripper that answers every request with the same code and text.
type answers struct {
	code int
	text string
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.code, Body: io.NopCloser(strings.NewReader(a.text))}, nil
}

func TestAWebhookWithoutAWorkingServiceIsReportedOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(9)
	c := fake.NewClientBuilder().WithObjects(hook()).Build()
	w, err := NewWatch(WatchOptions{Reader: c, Events: recorder, Clock: clocktesting.NewFakeClock(time.Time{}), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	w.look(t.Context())
	w.look(t.Context())
	if n := testutil.ToFloat64(w.metric); n != 1 || len(recorder.Events) != 1 {
		t.Fatalf("the metric is %v, and there are %d Events", n, len(recorder.Events))
	}
	if text := <-recorder.Events; !strings.Contains(text, "kubectl delete mutatingwebhookconfiguration machinedeployments.machine-controller.kubermatic.io") {
		t.Errorf("the Event is %q", text)
	}
	if err := c.Delete(t.Context(), hook()); err != nil {
		t.Fatal(err)
	}
	w.look(context.Background())
	if n := testutil.ToFloat64(w.metric); n != 0 {
		t.Errorf("the metric is %v once the webhook is gone", n)
	}
}
