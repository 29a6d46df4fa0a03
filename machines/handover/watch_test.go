package handover

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

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
	if text := <-recorder.Events; !strings.Contains(text, "kubectl delete mutatingwebhookconfiguration machine-controller.kubermatic.io") {
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
