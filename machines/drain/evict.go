package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// patience limits how long drover waits for the answer to one eviction. A webhook for evictions may take 30 s, the longest timeout that
	// Kubernetes allows it (F-144).
	patience = 31 * time.Second
	// shortPatience is the limit for the other pods of a node when an eviction there was not decided within patience: the webhook probably
	// decides none, and the drains of other nodes need the workers.
	shortPatience = 5 * time.Second
	// perNode limits the evictions of one node that are under way at the same time.
	perNode = 8
)

// noAnswer is the reason shown for a pod whose eviction was not answered. It is constant, because the text of a transport error
// differs from one eviction request to the next, and each new text would cause a write of the condition that shows it.
const noAnswer = "the API server did not answer"

// Answer is the answer to an eviction.
type Answer struct {
	// Reason is why the pod cannot be evicted now; empty when the eviction was granted, or the pod is gone.
	Reason string
	// Budget reports whether a disruption budget refused the eviction.
	Budget bool
	// Undecided reports whether the API server did not decide in time.
	Undecided bool
}

func (a Answer) granted() bool { return a.Reason == "" }

// evictOne asks the Eviction API to evict one pod, with the pod's UID as a precondition. When the API server answers with a Status, of
// whatever code, the text of that Status is the reason. The error is set only when there was no Status.
func (d *Drainer) evictOne(ctx context.Context, pod *corev1.Pod, mode Mode, limit time.Duration) (Answer, error) {
	options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if mode.Abrupt {
		options.GracePeriodSeconds = ptr.To(int64(1))
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: options,
	}
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := d.Client.SubResource("eviction").Create(asking, pod.DeepCopy(), eviction)
	switch {
	case err == nil:
		return Answer{}, nil
	case !isStatus(err) && errors.Is(asking.Err(), context.DeadlineExceeded) && ctx.Err() == nil:
		return Answer{Undecided: true, Reason: fmt.Sprintf("the API server did not decide on the eviction within %s: a webhook for evictions may be slow, "+
			"see kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations", limit)}, nil
	case !isStatus(err):
		return Answer{Reason: noAnswer}, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && d.gone(ctx, pod):
		return Answer{}, nil
	case apierrors.IsTooManyRequests(err) && budgetRefused(err):
		return Answer{Reason: reasonOf(err) + d.neverAllowed(ctx, pod), Budget: true}, nil
	}
	return Answer{Reason: reasonOf(err)}, nil
}

// AnswerAtOnce wraps the transport of a cluster's clients, so that a refused eviction returns at once. Without it client-go repeats a request
// whose answer has the header Retry-After, as that of a disruption budget may have, up to ten times, and waits as long as each answer
// demands. The drain repeats refused evictions itself.
func AnswerAtOnce(next http.RoundTripper) http.RoundTripper { return answerAtOnce{next} }

type answerAtOnce struct{ next http.RoundTripper }

func (t answerAtOnce) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(request)
	if err == nil && strings.HasSuffix(request.URL.Path, "/eviction") {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

// isStatus reports whether an error is an answer of the API server.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// gone reports whether the pod no longer exists, or another pod has its name by now. gone reads the pod, because the error of an
// eviction does not show this reliably: a proxy may also return 404, and a Conflict may have other causes than another pod of the name.
// A pod that cannot be read counts as existing.
func (d *Drainer) gone(ctx context.Context, pod *corev1.Pod) bool {
	var now corev1.Pod
	if err := d.Reader.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.UID != pod.UID
}

// budgetRefused reports whether a disruption budget refused the eviction, as opposed to an overloaded API server.
func budgetRefused(err error) bool {
	return apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

// reasonOf returns the text of a Status. The text of a disruption budget is in the causes of the Status; without such a text, reasonOf
// returns the message, or else the code.
func reasonOf(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err.Error()
	}
	status := answer.Status()
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause && cause.Message != "" {
				return cause.Message
			}
		}
	}
	return cmp.Or(status.Message, strings.TrimSpace(fmt.Sprintf("the API server answered %d %s", status.Code, status.Reason)))
}

// neverAllowed returns a text for users when a disruption budget of the pod allows no disruption although all pods of the budget are
// healthy, so that waiting does not help (MCM-62). It returns "" when there is no such budget, or when the budgets cannot be read.
func (d *Drainer) neverAllowed(ctx context.Context, pod *corev1.Pod) string {
	var budgets policyv1.PodDisruptionBudgetList
	if err := d.Client.List(ctx, &budgets, client.InNamespace(pod.Namespace)); err != nil {
		return ""
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) && neverAllows(b) {
			return " (the disruption budget never allows a disruption, even while all of its pods are healthy: loosen the budget)"
		}
	}
	return ""
}

// neverAllows reports whether a budget allows no disruption although its status is current and all expected pods are healthy.
func neverAllows(b *policyv1.PodDisruptionBudget) bool {
	s := &b.Status
	return s.ObservedGeneration == b.Generation && s.ExpectedPods > 0 && s.CurrentHealthy >= s.ExpectedPods &&
		len(s.DisruptedPods) == 0 && s.DisruptionsAllowed == 0
}
