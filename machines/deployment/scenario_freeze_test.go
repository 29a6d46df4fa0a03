package deployment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// overshoot brings the deployment to far too many Machines: a rollout stands, its old set is paused and has six Machines too many, and the new
// set has just lost its Machine. It returns the old set and the new one.
func (h *harness) overshoot() (old, current *v1alpha1.MachineSet) {
	h.t.Helper()
	first := h.setOf("flip")
	h.actor.hold("flip", creates) // the new Machines do not become Ready
	h.template("1.37.2")
	time.Sleep(time.Minute)
	h.edit(first, `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
	for i := range 6 {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-bcdf%d", first.Name, 2+i), Namespace: first.Namespace, Labels: first.Spec.Template.Metadata.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(first, v1alpha1.MachineSetKind)},
		}, Spec: first.Spec.Template.Spec}
		if err := h.client.Create(h.t.Context(), m); err != nil {
			h.t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	sets, _ := h.all()
	for i := range sets {
		if sets[i].Name != first.Name {
			current = &sets[i]
		}
	}
	for name := range h.ofKubelet("1.37.2") {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		if err := h.client.Delete(h.t.Context(), m); err != nil {
			h.t.Fatal(err)
		}
	}
	time.Sleep(time.Minute)
	return first, current
}

// frozen returns the label of the deployment and the status of its condition.
func (h *harness) frozen() string {
	h.t.Helper()
	d := h.get("flip")
	text := d.Labels[v1alpha1.LabelFreeze]
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionFrozen); c != nil {
		text += " " + string(c.Status) + " " + c.Reason
	}
	return text
}

func TestADeploymentIsFrozenWhileOneOfItsSetsIs(t *testing.T) {
	t.Run("it shows the set and its numbers until the surplus is deleted, and then completes its rollout (MCM-70, MCM-71, MCM-74, MCM-76)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			old, current := h.overshoot()
			if got := h.frozen(); got != "True True OverShootingReplicaCount" {
				t.Fatalf("the marks are %q", got)
			}
			c := meta.FindStatusCondition(h.get("flip").Status.Conditions, v1alpha1.ConditionFrozen)
			if !strings.Contains(c.Message, "set "+current.Name) || !strings.Contains(c.Message, "living Machines, and make no more from 6 on") {
				t.Errorf("the message is %q", c.Message)
			}
			if n := len(h.ofKubelet("1.37.2")); n != 0 {
				t.Errorf("the frozen set has made %d Machines", n)
			}
			h.edit(old, `{"metadata":{"annotations":{"cluster.k8s.io/paused":null}}}`)
			time.Sleep(time.Minute)
			if got := h.frozen(); got != " False WithinReplicaCount" {
				t.Errorf("the marks are %q", got)
			}
			h.actor.letGo("flip")
			h.settled("flip", 3)
		})
	})
	t.Run("its annotation lets the frozen set make once what it lacks, and goes (MCM-77)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			h.overshoot()
			h.patch("flip", fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationUnfreezeMCM))
			time.Sleep(time.Minute)
			if n := len(h.ofKubelet("1.37.2")); n == 0 {
				t.Error("the set has made no Machine")
			}
			if _, there := h.get("flip").Annotations[v1alpha1.AnnotationUnfreezeMCM]; there {
				t.Error("the annotation is still there")
			}
			if got := h.frozen(); got != " False WithinReplicaCount" {
				t.Errorf("the marks are %q", got)
			}
		})
	})
	t.Run("a label that a person sets on it goes (MCM-78)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			h.patch("flip", `{"metadata":{"labels":{"freeze":"True"}}}`)
			time.Sleep(time.Minute)
			if got := h.frozen(); got != "" {
				t.Errorf("the marks are %q", got)
			}
		})
	})
	t.Run("a large scale-down and the scale-ups after it freeze nothing (MCM-73)", func(t *testing.T) {
		inFlip(t, 0, func(h *harness) {
			for _, n := range []int32{30, 1, 25, 0, 12} {
				h.patch("flip", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					if got := h.frozen(); got != "" {
						t.Fatalf("at %d the marks are %q", n, got)
					}
				}
				h.settled("flip", n)
			}
		})
	})
}
