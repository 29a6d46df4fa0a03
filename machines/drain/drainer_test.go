package drain

import (
	"errors"
	"slices"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatADrainRoundReportsAboutAnEviction(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	status := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
	}
	conflict := apierrors.NewConflict(resource, "p", errors.New("the UID in the precondition (uid-p) does not match the UID in record (other)"))
	tests := []struct {
		name   string
		answer error
		// now is the UID of the pod that a read from the API server finds. "" means that it finds the pod whose eviction was
		// requested, and "none" that it finds no pod.
		now     types.UID
		blocked string
		fails   bool
	}{
		{name: "reports no blocked pod for a granted eviction"},
		{name: "shows the API server's message when a disruption budget refuses the eviction (CAPI-38, MC-60)", answer: tooMany(), blocked: "The disruption budget b needs 1 healthy pods and has 1 currently"},
		{name: "counts a pod that is gone as evicted", answer: apierrors.NewNotFound(resource, "p"), now: "none"},
		{name: "counts a pod as evicted when another pod has its name now (CAPI-40, MCM-64)", answer: conflict, now: "other"},
		{name: "shows the API server's message when an eviction is answered with status 403", answer: apierrors.NewForbidden(resource, "p", errors.New("namespace is being terminated")), blocked: `pods "p" is forbidden: namespace is being terminated`},
		{name: "shows the API server's message when an eviction is answered with status 500, for example because of two disruption budgets (F-22)", answer: status(500, "This pod has more than one PodDisruptionBudget."), blocked: "This pod has more than one PodDisruptionBudget."},
		{name: "shows the status code of the answer to an eviction when the answer has no message (F-22)", answer: status(503, ""), blocked: "the API server answered 503"},
		{name: "when a proxy answers the eviction of an existing pod with 404, the report shows the text of that answer (F-22)", answer: status(404, "default backend - 404"), blocked: "default backend - 404"},
		{name: "shows the API server's message when an eviction is answered with status 409 and no other pod has taken the pod's name (F-22)", answer: conflict, blocked: conflict.ErrStatus.Message},
		{name: "shows the API server's message when an eviction is answered with status 422 (F-22)", answer: status(422, "Eviction.policy is invalid"), blocked: "Eviction.policy is invalid"},
		{name: "shows the API server's message when an overloaded API server answers an eviction with status 429 (F-22)", answer: status(429, "too many requests"), blocked: "too many requests"},
		{name: "returns an error when the API server does not answer an eviction (MCM-66)", answer: errors.New("connection refused"), blocked: noAnswer, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []*policyv1.Eviction
			d := answering(func(string) error { return tt.answer }, &asked, pod("p"))
			d.Reader = reading(d.Client, tt.now)
			got, err := d.Round(t.Context(), Order{Node: "n"}, time.Unix(0, 0))
			if (err != nil) != tt.fails {
				t.Fatalf("Round() returned error %v", err)
			}
			if got.Done || len(got.Leaving)+len(got.Blocked) != 1 || (len(got.Blocked) == 1) != (tt.blocked != "") {
				t.Errorf("Round() = %+v", got)
			}
			if tt.blocked != "" && (got.Blocked[0].Reason != tt.blocked || got.Blocked[0].Pod != "ns/p") {
				t.Errorf("Blocked = %+v", got.Blocked)
			}
			if len(asked) != 1 || *asked[0].DeleteOptions.Preconditions.UID != "uid-p" || asked[0].DeleteOptions.GracePeriodSeconds != nil {
				t.Errorf("requested evictions %+v", asked)
			}
		})
	}
}

func TestAFailedEvictionDoesNotStopADrainRound(t *testing.T) {
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "two budgets"}}
	for name, answer := range map[string]error{
		"every pod's eviction is requested although one eviction ends with status 500 (F-22)":          refusal,
		"every pod's eviction is requested although one eviction ends with a broken connection (F-22)": errors.New("EOF"),
	} {
		t.Run(name, func(t *testing.T) {
			var asked []*policyv1.Eviction
			d := answering(func(pod string) error {
				if pod == "b" {
					return answer
				}
				return nil
			}, &asked, pod("a"), pod("b"), pod("c"))
			got, _ := d.Round(t.Context(), Order{Node: "n"}, time.Unix(0, 0))
			if len(asked) != 3 || len(got.Blocked) != 1 || got.Blocked[0].Pod != "ns/b" || !slices.Equal(got.Leaving, []string{"ns/a", "ns/c"}) || got.Done {
				t.Errorf("%d evictions requested, result %+v", len(asked), got)
			}
		})
	}
	for name, answer := range map[string]error{
		"the drain of an unreachable node is complete although every eviction ends with status 500 (F-22)":          refusal,
		"the drain of an unreachable node is complete although every eviction ends with a broken connection (F-22)": errors.New("EOF"),
	} {
		t.Run(name, func(t *testing.T) {
			var asked []*policyv1.Eviction
			d := answering(func(string) error { return answer }, &asked, pod("a"))
			got, err := d.Round(t.Context(), Order{Node: "n", Mode: Mode{Abrupt: true}}, time.Unix(0, 0))
			if err != nil || !got.Done || len(got.Blocked) != 1 {
				t.Errorf("Round() = %+v, %v", got, err)
			}
		})
	}
}

func TestADrainRoundOnAnUnreachableNodeDoesNotWait(t *testing.T) {
	t.Run("pods get a grace period of one second, and the drain does not wait for their end (CAPI-39)", func(t *testing.T) {
		var asked []*policyv1.Eviction
		d := answering(func(string) error { return nil }, &asked, pod("p"))
		got, err := d.Round(t.Context(), Order{Node: "n", Mode: Mode{Abrupt: true}}, time.Unix(0, 0))
		if err != nil || !got.Done || len(asked) != 1 || *asked[0].DeleteOptions.GracePeriodSeconds != 1 {
			t.Errorf("Round() = %+v, %v, evictions %+v", got, err, asked)
		}
	})
	t.Run("the drain is complete although a disruption budget refuses the eviction (MCM-56)", func(t *testing.T) {
		var asked []*policyv1.Eviction
		d := answering(func(string) error { return tooMany() }, &asked, pod("p"))
		if got, err := d.Round(t.Context(), Order{Node: "n", Mode: Mode{Abrupt: true}}, time.Unix(0, 0)); err != nil || !got.Done || len(got.Blocked) != 1 {
			t.Errorf("Round() = %+v, %v", got, err)
		}
	})
}
