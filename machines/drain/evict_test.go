package drain

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestADisruptionBudgetThatNeverAllowsADisruptionIsReported(t *testing.T) {
	budget := func(change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"},
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
			Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1}}
		if change != nil {
			change(b)
		}
		return b
	}
	for _, tt := range []struct {
		name         string
		change       func(*policyv1.PodDisruptionBudget)
		neverAllowed bool
	}{
		{"reports a budget that allows no disruption although all its pods are healthy (MCM-62)", nil, true},
		{"does not report a budget with unhealthy pods (MCM-62)", func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = 2 }, false},
		{"does not report a budget whose status is older than its spec (MCM-62)", func(b *policyv1.PodDisruptionBudget) { b.Generation = 7 }, false},
		{"does not report a budget that selects only other pods (MCM-62)", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = map[string]string{"a": "b"} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := newTestNode(t, plain("p"), budget(tt.change))
			node.answer = func(context.Context, string) error { return tooMany() }
			r, err := node.drainer().Round(t.Context(), Order{Node: "n"}, noon)
			if err != nil || len(r.Blocked) != 1 {
				t.Fatalf("Round() = %+v, %v", r, err)
			}
			if got := strings.Contains(r.Blocked[0].Reason, "never allows a disruption"); got != tt.neverAllowed || !strings.Contains(r.Blocked[0].Reason, "needs 1 healthy pods") {
				t.Errorf("%q", r.Blocked[0].Reason)
			}
		})
	}
}

func TestHowLongAnEvictionMayTake(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration
		granted bool
	}{
		"an eviction whose webhook needs the longest time that Kubernetes allows is granted (F-144)": {30 * time.Second, true},
		"an eviction that is never answered ends, and its message names the webhooks (F-144)":        {time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := newTestNode(t, plain("p"))
				node.answer = func(ctx context.Context, _ string) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(c.takes):
						return nil
					}
				}
				began := time.Now()
				r, err := node.drainer().Round(t.Context(), Order{Node: "n"}, noon)
				if err != nil || r.Done || time.Since(began) > patience {
					t.Errorf("Round() = %+v, %v, after %v", r, err, time.Since(began))
				}
				if c.granted != (len(r.Blocked) == 0) || !c.granted && !strings.Contains(r.Blocked[0].Reason, "validatingwebhookconfigurations") {
					t.Errorf("blocked: %+v", r.Blocked)
				}
			})
		})
	}
}

func TestAWebhookThatNeverAnswersDelaysARoundByLessThanTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []client.Object
		for i := range 110 {
			pods = append(pods, plain(fmt.Sprintf("p%d", i)))
		}
		node := newTestNode(t, pods...)
		node.answer = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		r, err := node.drainer().Round(t.Context(), Order{Node: "n"}, noon)
		if took := time.Since(began); err != nil || len(r.Blocked) != 110 || took > 2*time.Minute {
			t.Errorf("a round with 110 pods took %s, and named %d of them; error %v (F-144)", took, len(r.Blocked), err)
		}
	})
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOnlyRefusedEvictionsAreAnsweredAtOnceDespiteTheHeaderRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		config := &rest.Config{
			Host: "https://api.example", APIPath: "/api",
			ContentConfig: rest.ContentConfig{GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs},
			Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				asked++
				return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"10"}}, Body: http.NoBody}, nil
			}),
		}
		config.Wrap(AnswerAtOnce)
		c, err := rest.RESTClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for resource, repeated := range map[string]bool{"eviction": false, "status": true} {
			asked = 0
			err := c.Post().Namespace("ns").Resource("pods").Name("p").SubResource(resource).Do(t.Context()).Error()
			if !apierrors.IsTooManyRequests(err) || repeated != (asked > 1) {
				t.Errorf("%s: asked %d times, got %v", resource, asked, err)
			}
		}
		if waited := time.Since(began); waited != 100*time.Second {
			t.Errorf("waited %s, want ten waits of 10 s for the status alone", waited)
		}
	})
}
