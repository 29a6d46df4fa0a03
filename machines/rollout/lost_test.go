package rollout

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheMachinesOfLostSetsCountTowardsReplicasPlusSurge(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lost  []LostSet
		sizes string
	}{
		{"a new set gets its whole size when no set is lost (F-106)", nil, "[A=3]"},
		{"a new set gets the part of replicas plus surge that the lost set leaves (F-106)", []LostSet{{"md-1", 3}}, "[A=1]"},
		{"a new set gets the size 0 when lost sets have all Machines (F-106)", []LostSet{{"md-1", 3}, {"md-2", 1}}, "[A=0]"},
		{"no set is created when three sets are lost (F-107)", []LostSet{{"md-1", 0}, {"md-2", 0}, {"md-3", 0}}, "[]"},
		{"sizes as large as possible do not overflow (F-106)", []LostSet{{"md-1", v1alpha1.MaxReplicas}, {"md-2", v1alpha1.MaxReplicas}}, "[A=0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newSimulation(shape{3, "1", "0"})
			w.lost = tt.lost
			if w.plan(); w.sizes() != tt.sizes {
				t.Errorf("sizes %s, want %s", w.sizes(), tt.sizes)
			}
			c := meta.FindStatusCondition(w.d.Status.Conditions, v1alpha1.ConditionDegraded)
			if is := c.Reason == ReasonSetsLost; is != (len(tt.lost) > 0) {
				t.Errorf("the condition Degraded is %+v", c)
			}
		})
	}
	t.Run("Machines that exist stay when a set is lost during a rollout (F-106)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.template("B")
		w.lost = []LostSet{{"md-1", 3}}
		w.settle(&strings.Builder{})
		if living, available, _ := w.count(); living != 3 || available != 3 {
			t.Errorf("%d Machines are living and %d available, want 3", living, available)
		}
	})
}

func TestASetWhoseTemplateTheAPIServerHasChanged(t *testing.T) {
	stored := func(w *simulation) {
		set := w.sets[len(w.sets)-1]
		set.Spec.Template.Metadata.Annotations = map[string]string{"team": "platform"}
		set.Annotations[v1alpha1.AnnotationStoredTemplate] = must(StoredTemplate(&w.d.Spec.Template, &set.Spec.Template))
	}
	t.Run("is the current set, and a warning names the difference (F-107)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		stored(w)
		p, _ := w.plan()
		if p.Create != nil || !strings.Contains(p.Warning, "metadata.annotations.team: not set → platform") {
			t.Errorf("creates %v, warning %q", p.Create, p.Warning)
		}
	})
	t.Run("is no longer the current set after the deployment's template has changed (F-107)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		stored(w)
		w.template("B")
		if p, _ := w.plan(); p.Create == nil {
			t.Error("no set is created")
		}
	})
	t.Run("is no longer the current set after the set's template has changed once more, when no set records what was decided (F-107)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		stored(w)
		w.sets[0].Spec.Template.Spec.Versions.Kubelet = "another"
		delete(w.sets[0].Annotations, v1alpha1.AnnotationDecided)
		if p, _ := w.plan(); p.Create == nil || len(p.Instead) != 1 {
			t.Errorf("creates %v instead of %v", p.Create, p.Instead)
		}
	})
	t.Run("gets the deployment's template back after another client has changed it once more (F-162)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		stored(w)
		w.plan() // records that the stored template is accepted
		w.sets[0].Spec.Template.Spec.Versions.Kubelet = "another"
		p, _ := w.plan()
		if p.Create != nil || p.Restore == nil || p.Restore.Set != w.sets[0] || p.Restore.Template.Spec.Versions.Kubelet != "A" {
			t.Errorf("creates %v, restores %+v", p.Create, p.Restore)
		}
	})
}

func TestSetsThatAreChangedAfterTheirCreationCountHoweverOftenTheirNamesWereTaken(t *testing.T) {
	for _, taken := range []int32{0, 1, 2, 3, 6, 40} {
		t.Run(fmt.Sprintf("no fourth set is created when the collision count is %d (F-107)", taken), func(t *testing.T) {
			w := settled(shape{1, "1", "0"})
			for count := range int32(3) {
				set := w.sets[0].DeepCopy()
				set.Name = v1alpha1.SetBase(w.d.Name) + "-" + must(templateHash(&w.d.Spec.Template, count))
				set.UID = types.UID(set.Name)
				set.Spec.Template.Spec.Versions.Kubelet = "another"
				w.sets = append(w.sets, set)
			}
			w.sets = w.sets[1:]
			w.d.Status.CollisionCount = &taken
			if p, err := Compute(w.snapshot()); err != nil || p.Create != nil {
				t.Errorf("creates %v, %v", p.Create, err)
			}
		})
	}
}

func TestADeploymentSelectsEachSetThatItCreates(t *testing.T) {
	t.Run("for any selector and any labels of the template, a plan that creates a set creates one that the selector matches (F-106)", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			keys := rapid.SampledFrom([]string{"group", "team", v1alpha1.LabelTemplateHash})
			values := rapid.SampledFrom([]string{"a", "b", "5d9f7c8b6"})
			w := newSimulation(shape{1, "1", "0"})
			w.d.Spec.Template.Metadata.Labels = rapid.MapOf(keys, values).Draw(t, "labels")
			w.d.Spec.Selector.MatchLabels = rapid.MapOf(keys, values).Draw(t, "matchLabels")
			for range rapid.IntRange(0, 2).Draw(t, "expressions") {
				e := metav1.LabelSelectorRequirement{Key: keys.Draw(t, "key"), Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
					metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}).Draw(t, "operator")}
				if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
					e.Values = []string{values.Draw(t, "value")}
				}
				w.d.Spec.Selector.MatchExpressions = append(w.d.Spec.Selector.MatchExpressions, e)
			}
			p, err := Compute(w.snapshot())
			if err != nil {
				return
			}
			if selector := must(metav1.LabelSelectorAsSelector(&w.d.Spec.Selector)); !selector.Matches(labels.Set(p.Create.Labels)) {
				t.Fatalf("the selector %s does not match the labels %v of the new set", selector, p.Create.Labels)
			}
		})
	})
}
