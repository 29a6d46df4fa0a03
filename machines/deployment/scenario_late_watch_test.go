package deployment_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// counted counts calls.
type counted struct {
	http.RoundTripper
	calls *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

func TestAWatchThatIsMinutesLateCausesFewCalls(t *testing.T) {
	for _, resource := range []string{"machinedeployments", "machinesets", "machines"} {
		t.Run("the controllers make at most 300 calls in five minutes while the watch of "+resource+" is late", func(t *testing.T) {
			var late, calls atomic.Int64
			lag := func(kind string) time.Duration {
				if kind != resource {
					return 0
				}
				return time.Duration(late.Load())
			}
			over := func(next http.RoundTripper) http.RoundTripper { return counted{next, &calls} }
			inFlipOver(t, lag, over, func(h *harness) {
				h.template("1.37.2")
				time.Sleep(time.Second)
				late.Store(int64(5 * time.Minute))
				before := calls.Load()
				h.patch("flip", `{"spec":{"replicas":2}}`)
				time.Sleep(5 * time.Minute)
				if n := calls.Load() - before; n > 300 {
					t.Errorf("%d calls in five minutes", n)
				}
			})
		})
	}
}

func TestADeploymentThatIsRestoredInTheSameInstantAsItsSets(t *testing.T) {
	t.Run("has no more Machines than its size and surge, although the watch shows the deployment before its sets", func(t *testing.T) {
		var late atomic.Int64
		lag := func(kind string) time.Duration {
			if kind != "machinesets" {
				return 0
			}
			return time.Duration(late.Load())
		}
		inFlipOver(t, lag, func(next http.RoundTripper) http.RoundTripper { return next }, func(h *harness) {
			h.actor.hold("flip", creates) // the new Machines do not become Ready, so that the rollout keeps both sets
			h.template("1.37.2")
			time.Sleep(time.Minute)
			d := h.get("flip")
			sets, before := h.all()
			orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
			objects := []client.Object{d}
			for i := range sets {
				objects = append(objects, &sets[i])
			}
			for _, o := range objects {
				if err := h.client.Delete(t.Context(), o, orphan); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
			}
			late.Store(int64(3 * time.Second))
			for i := range sets {
				if err := h.client.Create(t.Context(), fresh(&sets[i])); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.client.Create(t.Context(), fresh(d)); err != nil {
				t.Fatal(err)
			}
			most := before
			for range 600 {
				time.Sleep(100 * time.Millisecond)
				_, living := h.all()
				most = max(most, living)
			}
			if most > 4 {
				t.Errorf("there were %d living Machines", most)
			}
			h.actor.letGo("flip")
			h.settled("flip", 3)
		})
	})
}
