package registry

import (
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// evict deletes a pod unless a PodDisruptionBudget forbids it, and records the disruption in the budget.
func (s *Registry) evict(q *Request) (any, error) {
	var eviction policyv1.Eviction
	if err := decode(q, &eviction); err != nil {
		return nil, err
	}
	old, err := s.find(q)
	if err != nil {
		return nil, err
	}
	options := eviction.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(old.Object.Object, &pod); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	ends := pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning
	if !ends {
		// As in the real server, the disruption is deducted from the budget before the preconditions of the deletion are
		// checked.
		if err := s.spend(&pod); err != nil {
			return nil, err
		}
	}
	if _, _, err := s.end(q, old, options); err != nil {
		return nil, err
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: 201}, nil
}

// stillProcessed is the number of seconds after which a client may retry an eviction that failed because the
// disruption controller has not processed the budget yet.
const stillProcessed = 10

// tooMany returns the answer to an eviction that a budget forbids.
func tooMany(message, budget string, retryAfter int) error {
	err := apierrors.NewTooManyRequests(message, retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: budget,
	})
	return err
}

// twoBudgets is the answer to an eviction of a pod that several budgets select. Its reason is empty, as in the real
// server's answer.
func twoBudgets() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
}

// spend deducts one disruption from the PodDisruptionBudget that selects the pod.
func (s *Registry) spend(pod *corev1.Pod) error {
	k := s.catalog.ByKind[catalog.V1("policy", "PodDisruptionBudget").GroupKind()]
	var found []*store.Record
	var budget policyv1.PodDisruptionBudget
	for _, r := range s.store.All(k) {
		var b policyv1.PodDisruptionBudget
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object.Object, &b); err != nil {
			return apierrors.NewInternalError(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			found, budget = append(found, r), b
		}
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) > 1:
		return twoBudgets()
	case budget.Status.ObservedGeneration < budget.Generation:
		return tooMany("Cannot evict pod as it would violate the pod's disruption budget.",
			fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name), stillProcessed)
	case budget.Status.DisruptionsAllowed <= 0:
		return tooMany("Cannot evict pod as it would violate the pod's disruption budget.", fmt.Sprintf(
			"The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy), 0)
	}
	changed := found[0].Object.DeepCopy()
	if err := set(changed, int64(budget.Status.DisruptionsAllowed-1), "status", "disruptionsAllowed"); err != nil {
		return err
	}
	if err := set(changed, store.Now().Format(time.RFC3339), "status", "disruptedPods", pod.Name); err != nil {
		return err
	}
	_, err := s.finish(k, found[0], changed)
	return err
}
