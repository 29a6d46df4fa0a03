package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long one eviction may take to be answered.
const patience = 5 * time.Second

// evictOne asks for one eviction. The UID keeps it from hitting a pod of the same name that has come meanwhile. It
// returns why the pod may not go now, if so; an error only when the API server did not answer.
func (d *Drainer) evictOne(ctx context.Context, pod *corev1.Pod, mode Mode) (string, error) {
	options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if mode.Abrupt {
		options.GracePeriodSeconds = ptr.To(int64(1))
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: options,
	}
	// A budget that was just changed is answered with a Retry-After, which the client would obey here and now.
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := d.Client.SubResource("eviction").Create(asking, pod.DeepCopy(), eviction)
	switch {
	case errors.Is(asking.Err(), context.DeadlineExceeded) && ctx.Err() == nil:
		return "its disruption budget is still being processed", nil
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Gone, or another pod bears the name now: either way this one is no longer here.
		return "", nil
	case apierrors.IsTooManyRequests(err) && budgetRefused(err):
		return reasonOf(err) + d.hopeless(ctx, pod), nil
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return reasonOf(err), nil
	}
	return "", fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// budgetRefused tells a budget's refusal from an API server that asks for patience.
func budgetRefused(err error) bool {
	return apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

// reasonOf gives the budget's own words, which stand in the causes of the answer.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	reason := status.Status().Message
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				reason = cause.Message
			}
		}
	}
	return reason
}

// hopeless says so when a budget of the pod's, with all its pods healthy, allows no disruption: then waiting will not help
// (MCM-62). A budget that cannot be read is given the benefit of the doubt.
func (d *Drainer) hopeless(ctx context.Context, pod *corev1.Pod) string {
	var budgets policyv1.PodDisruptionBudgetList
	if err := d.Client.List(ctx, &budgets, client.InNamespace(pod.Namespace)); err != nil {
		return ""
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) && neverAllows(b) {
			return " (it never allows a disruption, with all of its pods healthy: loosen it)"
		}
	}
	return ""
}

// neverAllows is true for a budget that is up to date, has every pod it expects, and allows nothing all the same.
func neverAllows(b *policyv1.PodDisruptionBudget) bool {
	s := &b.Status
	return s.ObservedGeneration == b.Generation && s.ExpectedPods > 0 && s.CurrentHealthy >= s.ExpectedPods &&
		len(s.DisruptedPods) == 0 && s.DisruptionsAllowed == 0
}
