package machine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const twoBudgets = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

// failedEvictions lists reasons why an eviction fails, each with the API server's answer and the resulting text of condition Deleting.
var failedEvictions = []struct {
	name   string
	answer error
	shown  string
}{
	{"two disruption budgets select the pod (F-22)", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: twoBudgets}}, "evictions are refused: ns/p: " + twoBudgets},
	{"the API server does not answer (F-22)", errors.New("read tcp 127.0.0.1:40123: connection reset by peer"), "evictions are refused: ns/p: the API server did not answer"},
}

func TestFailedEvictionsAreShownAndRepeated(t *testing.T) {
	for _, tt := range failedEvictions {
		t.Run("condition Deleting shows the reason, and the eviction is repeated every ten seconds, when "+tt.name, func(t *testing.T) {
			b, asked := joined(t, nil), 0
			b.create(stubborn("p"))
			b.evicting = func(string) error { asked++; return tt.answer }
			b.end()
			b.pass()
			if c := b.deleting(); c.Reason != "DrainingNode" || !strings.HasPrefix(c.Message, tt.shown+";") || b.cloud.count("DeleteServer") != 0 {
				t.Fatalf("%+v", c)
			}
			for range 3 {
				if after := b.pass().RequeueAfter; after != 10*time.Second {
					t.Errorf("the next reconcile is after %s", after)
				}
				b.wait(10 * time.Second)
			}
			b.pass()
			if asked != 4 {
				t.Errorf("%d evictions in 30 seconds", asked)
			}
		})
		t.Run("a forced deletion ends the drain at once when "+tt.name, func(t *testing.T) {
			b := joined(t, nil)
			b.create(stubborn("p"))
			b.evicting = func(string) error { return tt.answer }
			b.end()
			b.pass()
			b.annotate(v1alpha1.AnnotationForceDelete, "true")
			b.pass()
			if b.cloud.count("DeleteServer") != 1 {
				t.Errorf("%+v", b.deleting())
			}
		})
	}
}

// testTwoBudgets drains a Node with a pod that two disruption budgets select, and then forces the deletion.
func (w *world) testTwoBudgets(t *testing.T) {
	m := w.ready("twice")
	labels := map[string]string{"app": "twice"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "twice", Namespace: "default", Labels: labels},
		Spec: corev1.PodSpec{NodeName: "twice", Containers: []corev1.Container{{Name: "c", Image: "none"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
	w.must(w.client.Create(w.ctx, pod))
	base := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.must(w.client.Status().Patch(w.ctx, pod, client.MergeFrom(base)))
	for _, name := range []string{"one", "two"} {
		w.must(w.client.Create(w.ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}))
	}
	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "the condition says that the pod has two budgets", func(m *v1alpha1.Machine) bool {
		c := find(m, v1alpha1.ConditionDeleting)
		return c.Reason == "DrainingNode" && strings.Contains(c.Message, "default/twice: "+twoBudgets)
	})
	began := time.Now()
	w.annotated(m, v1alpha1.AnnotationForceDelete, "true")
	w.until(m, "it is gone", gone)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the forced deletion took %s", took)
	}
}
