package freeze

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// said describes changes in one line: the object, its condition, its label, and the number of removed annotations.
func said(changes []change) string {
	var all []string
	for _, c := range changes {
		text := c.object.GetName()
		if c.condition != nil {
			text += fmt.Sprintf(" condition=%s(%s)", c.condition.Status, c.condition.Reason)
		}
		if c.label != nil {
			text += fmt.Sprintf(" label=%v", *c.label)
		}
		if len(c.remove) > 0 {
			text += fmt.Sprintf(" without=%d", len(c.remove))
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestWhatTheFreezeControllerWrites(t *testing.T) {
	all := func(g *Group, label bool, condition metav1.ConditionStatus) {
		for _, o := range g.objects() {
			mark(o, label, condition, ReasonOvershoot)
		}
	}
	overshoot := Verdict{Frozen: true, Reason: ReasonOvershoot, Message: "too many"}
	within := Verdict{Reason: ReasonWithin, Message: "few"}
	for name, tt := range map[string]struct {
		change  func(*Group)
		verdict Verdict
		want    string
	}{
		"writes nothing for a group that is not frozen":                                                         {func(*Group) {}, within, ""},
		"marks the deployment first and then all its sets as frozen (MCM-70)":                                   {func(*Group) {}, overshoot, "md condition=True(OverShootingReplicaCount) label=true, a condition=True(OverShootingReplicaCount) label=true, b condition=True(OverShootingReplicaCount) label=true"},
		"does not mark a frozen group as frozen again (MCM-70)":                                                 {func(g *Group) { all(g, true, metav1.ConditionTrue) }, overshoot, ""},
		"removes the freeze labels and sets the conditions Frozen to False when a freeze ends (MCM-71)":         {func(g *Group) { all(g, true, metav1.ConditionTrue) }, within, "md condition=False(WithinReplicaCount) label=false, a condition=False(WithinReplicaCount) label=false, b condition=False(WithinReplicaCount) label=false"},
		"writes nothing when the end of the group's freeze is already written (MCM-71)":                         {func(g *Group) { all(g, false, metav1.ConditionFalse) }, within, ""},
		"removes the freeze label from a set that has no condition Frozen (MCM-78)":                             {func(g *Group) { mark(g.Sets[0], true, "", "") }, within, "a label=false"},
		"removes the freeze label from a deployment that has no condition Frozen (MCM-78)":                      {func(g *Group) { mark(g.Deployment, true, "", "") }, Verdict{}, "md label=false"},
		"keeps a freeze label whose value is not one of drover's (MCM-78)":                                      {func(g *Group) { g.Deployment.Labels = map[string]string{v1alpha1.LabelFreeze: "winter"} }, Verdict{}, ""},
		"corrects a set's condition Frozen from True to False when the set's deployment is not frozen (MCM-78)": {func(g *Group) { mark(g.Sets[1], false, metav1.ConditionTrue, "") }, Verdict{}, "b condition=False(WithinReplicaCount)"},
		"marks a new set of a frozen deployment as frozen (MCM-78)":                                             {func(g *Group) { all(g, true, metav1.ConditionTrue); g.Sets[1] = newSet("b", 2, g.Deployment) }, overshoot, "b condition=True(OverShootingReplicaCount) label=true"},
		"adds a missing freeze label to a frozen group (MCM-78)":                                                {func(g *Group) { all(g, false, metav1.ConditionTrue) }, overshoot, "md label=true, a label=true, b label=true"},
		"ends the freeze of a deployment without sets (MCM-78)":                                                 {func(g *Group) { all(g, true, metav1.ConditionTrue); g.Sets = nil }, within, "md condition=False(WithinReplicaCount) label=false"},
		"removes the unfreeze annotations together with the freeze label (MCM-77)": {func(g *Group) {
			all(g, true, metav1.ConditionTrue)
			g.Deployment.Annotations = map[string]string{v1alpha1.AnnotationUnfreeze: "", v1alpha1.AnnotationUnfreezeMCM: ""}
			g.Sets = g.Sets[:1]
		}, Verdict{Reason: ReasonByHand}, "md condition=False(UnfrozenByHand) label=false without=2, a condition=False(UnfrozenByHand) label=false"},
		"removes the unfreeze annotation from a group that is not frozen (MCM-77)": {func(g *Group) { setAsks(g) }, Verdict{Reason: ReasonByHand}, "a without=1"},
		"does not mark a set as frozen while the set is paused": {func(g *Group) {
			g.Sets[0].Annotations = map[string]string{v1alpha1.AnnotationPaused: ""}
			g.Sets = g.Sets[:1]
		}, overshoot, "md condition=True(OverShootingReplicaCount) label=true"},
		"does not mark a set as frozen while the set is being deleted":                     {func(g *Group) { g.Sets[0].DeletionTimestamp = ptr.To(metav1.NewTime(noon)); g.Sets = g.Sets[:1] }, overshoot, "md condition=True(OverShootingReplicaCount) label=true"},
		"writes nothing for a group that is paused, is being deleted or has no known size": {func(g *Group) { mark(g.Sets[0], true, "", "") }, Verdict{LeftAlone: true, Frozen: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(5)
			g := &Group{Deployment: d, Sets: []*v1alpha1.MachineSet{newSet("a", 3, d), newSet("b", 2, d)}}
			tt.change(g)
			if got := said(converge(g, tt.verdict, noon)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	t.Run("marks a set without a deployment as frozen (MCM-72)", func(t *testing.T) {
		g := &Group{Sets: []*v1alpha1.MachineSet{newSet("a", 3, nil)}}
		if got := said(converge(g, overshoot, noon)); got != "a condition=True(OverShootingReplicaCount) label=true" {
			t.Errorf("got %s", got)
		}
	})
}

// Each case starts or ends a freeze. The leader is interrupted after each possible number of writes, and the next leader
// continues.
func TestANewLeaderContinuesAnInterruptedFreeze(t *testing.T) {
	for _, tt := range []struct {
		name   string
		living int
		frozen bool
	}{
		{"writes the freeze labels and conditions that the previous leader did not write when it started the freeze (MCM-78)", 8, true},
		{"removes the freeze labels that the previous leader did not remove when it ended the freeze (MCM-78)", 7, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for cut := 1; cut <= 6; cut++ {
				d := newDeployment(5)
				g := &Group{Deployment: d, Sets: []*v1alpha1.MachineSet{newSet("a", 3, d), newSet("b", 2, d)}, Living: tt.living}
				limits := Limits{Up: 2, Down: 1, Period: defaults.Period}
				if !tt.frozen {
					for _, o := range g.objects() {
						mark(o, true, metav1.ConditionTrue, ReasonOvershoot)
					}
				}
				do(g, converge(g, Judge(g, limits, noon), noon), cut)
				v := Judge(g, limits, noon)
				do(g, converge(g, v, noon), 100)
				for _, o := range g.objects() {
					labelled := o.GetLabels()[v1alpha1.LabelFreeze] == v1alpha1.Frozen
					if labelled != tt.frozen || isTrue(conditionOf(o)) != tt.frozen {
						t.Errorf("cut off after %d writes, %s has the label: %v, the condition %+v", cut, o.GetName(), labelled, conditionOf(o))
					}
				}
			}
		})
	}
}

// do carries out the changes in order, and stops after the given number of writes.
func do(_ *Group, changes []change, writes int) {
	step := func(f func()) {
		if writes > 0 {
			f()
		}
		writes--
	}
	for _, c := range changes {
		if c.condition != nil {
			step(func() { setCondition(c.object, *c.condition) })
		}
		if c.label != nil {
			step(func() {
				c.object.SetLabels(map[string]string{v1alpha1.LabelFreeze: map[bool]string{true: v1alpha1.Frozen}[*c.label]})
			})
		}
	}
}

func setCondition(o client.Object, c metav1.Condition) {
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		o.Status.Conditions = []metav1.Condition{c}
	case *v1alpha1.MachineSet:
		o.Status.Conditions = []metav1.Condition{c}
	}
}
