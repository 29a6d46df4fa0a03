package freeze

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestJudge(t *testing.T) {
	frozen := func(g *Group) { mark(g.owner(), true, metav1.ConditionTrue, ReasonOvershoot) }
	for name, tt := range map[string]struct {
		bare   bool
		size   int32
		living int
		change func(*Group)
		limits Limits
		at     time.Duration
		want   bool
	}{
		"at its size it is free":                                              {size: 5, living: 5},
		"at size and surge, as in every rollout, it is free":                  {size: 5, living: 6},
		"one short of the limit it is free (MCM-70)":                          {size: 5, living: 7},
		"at size, surge and --safety-up it is frozen (MCM-70)":                {size: 5, living: 8, want: true},
		"beyond that too (MCM-70)":                                            {size: 5, living: 100, want: true},
		"the limit follows --safety-up (MCM-70)":                              {size: 5, living: 8, limits: Limits{Up: 3, Down: 1, Period: time.Minute}},
		"a surge in percent is rounded up (MCM-70)":                           {size: 5, living: 8, change: surge("25%")},
		"and counts (MCM-70)":                                                 {size: 5, living: 9, change: surge("25%"), want: true},
		"a deployment of size 0 is bounded too (MCM-70)":                      {size: 0, living: 3, want: true},
		"a frozen one between the limits stays frozen (MCM-71)":               {size: 5, living: 8, change: frozen, want: true},
		"one that is --safety-down below the limit is free (MCM-71)":          {size: 5, living: 7, change: frozen},
		"a greater --safety-down asks for fewer (MCM-71)":                     {size: 5, living: 7, change: frozen, limits: Limits{Up: 2, Down: 2, Period: time.Minute}, want: true},
		"and is satisfied at last (MCM-71)":                                   {size: 5, living: 6, change: frozen, limits: Limits{Up: 2, Down: 2, Period: time.Minute}},
		"a size that was raised sets it free (MCM-71)":                        {size: 20, living: 8, change: frozen},
		"a set without a deployment may have twice its size and one (MCM-72)": {bare: true, size: 3, living: 7},
		"at twice its size and --safety-up it is frozen (MCM-72)":             {bare: true, size: 3, living: 8, want: true},
		"a frozen set is free below that (MCM-72)":                            {bare: true, size: 3, living: 7, change: frozen},
		"OnDelete has no surge of its own, and is judged (MCM-75)":            {size: 5, living: 8, change: strategy(v1alpha1.OnDelete), want: true},
		"Recreate too (MCM-75)":                                               {size: 5, living: 8, change: strategy(v1alpha1.Recreate), want: true},
		"and is free as others are (MCM-75)":                                  {size: 5, living: 7, change: strategy(v1alpha1.Recreate)},
		"no strategy at all is a surge of 1 (MCM-75)":                         {size: 5, living: 8, change: func(g *Group) { g.Deployment.Spec.Strategy = nil }, want: true},
		"a surge that cannot be read freezes nothing that runs (MCM-75)":      {size: 5, living: 11, change: surge("many")},
		"and is bounded all the same (MCM-75)":                                {size: 5, living: 12, change: surge("many"), want: true},
		"without a size the last one counts (MCM-75)":                         {size: 5, living: 8, change: sizeless(ptr.To[int32](5)), want: true},
		"without any, nothing is concluded (MCM-75)":                          {size: 5, living: 100, change: sizeless(nil)},
		"not even that it is free (MCM-75)":                                   {size: 5, living: 0, change: func(g *Group) { frozen(g); sizeless(nil)(g) }, want: true},
		"a size of nonsense concludes nothing (MCM-75)":                       {size: -1, living: 100},
		"an annotation sets it free, however many there are (MCM-77)":         {size: 5, living: 100, change: func(g *Group) { frozen(g); asks(v1alpha1.AnnotationUnfreeze)(g) }},
		"so does machine-controller-manager's (MCM-77)":                       {size: 5, living: 100, change: func(g *Group) { frozen(g); asks(v1alpha1.AnnotationUnfreezeMCM)(g) }},
		"so does one on a set (MCM-77)":                                       {size: 5, living: 100, change: func(g *Group) { frozen(g); setAsks(g) }},
		"for a period it is not frozen again (MCM-77)":                        {size: 5, living: 100, change: setFree, at: 59 * time.Second},
		"then it is, if there are still too many (MCM-77)":                    {size: 5, living: 8, change: setFree, at: time.Minute, want: true},
		"one that became free by itself is frozen again at once (MCM-77)":     {size: 5, living: 8, change: func(g *Group) { mark(g.owner(), false, metav1.ConditionFalse, ReasonWithin) }, want: true},
		"a label that a person put there freezes nothing (MCM-78)":            {size: 5, living: 7, change: func(g *Group) { mark(g.owner(), true, "", "") }},
		"a deployment without sets becomes free (MCM-78)":                     {size: 5, living: 0, change: func(g *Group) { frozen(g); g.Sets = nil }},
		"a paused group keeps its freeze":                                     {size: 5, living: 0, change: func(g *Group) { frozen(g); g.Deployment.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} }, want: true},
		"a paused group is not frozen":                                        {size: 5, living: 100, change: func(g *Group) { g.Deployment.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} }},
		"a group that is being deleted is not frozen":                         {size: 5, living: 100, change: func(g *Group) { g.Deployment.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }},
		"a group whose size was lowered a moment ago still has the former":    {size: 5, living: 21, change: func(g *Group) { g.Former = 21 }},
		"but no more than that":                                               {size: 5, living: 23, change: func(g *Group) { g.Former = 21 }, want: true},
		"a frozen one stays so while its size is lowered":                     {size: 5, living: 21, change: func(g *Group) { frozen(g); g.Former = 21 }, want: true},
		"a period of 0 freezes nothing":                                       {size: 5, living: 100, limits: Limits{Up: 2, Down: 1}},
		"and sets free what is frozen":                                        {size: 5, living: 100, change: frozen, limits: Limits{Up: 2, Down: 1}},
		"the largest possible size and surge do not overflow":                 {size: v1alpha1.MaxReplicas, living: 8, change: surge("2147483647%")},
		"the longest former bound does not overflow":                          {size: 5, living: 8, change: func(g *Group) { g.Former = unknown }},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Group{Living: tt.living}
			if tt.bare {
				g.Sets = []*v1alpha1.MachineSet{newSet("set", tt.size, nil)}
			} else {
				g.Deployment = newDeployment(tt.size)
				g.Sets = []*v1alpha1.MachineSet{newSet("a", tt.size, g.Deployment)}
			}
			if tt.change != nil {
				tt.change(g)
			}
			limits := tt.limits
			if limits == (Limits{}) {
				limits = defaults
			}
			if v := Judge(g, limits, noon.Add(tt.at)); v.Frozen != tt.want {
				t.Errorf("frozen is %v: %+v", v.Frozen, v)
			}
		})
	}
}

func surge(text string) func(*Group) {
	return func(g *Group) { g.Deployment.Spec.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.Parse(text)) }
}

func strategy(kind v1alpha1.StrategyType) func(*Group) {
	return func(g *Group) { g.Deployment.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{Type: kind} }
}

func sizeless(last *int32) func(*Group) {
	return func(g *Group) { g.Deployment.Spec.Replicas, g.Deployment.Status.LastReplicas = nil, last }
}

func asks(key string) func(*Group) {
	return func(g *Group) { g.owner().SetAnnotations(map[string]string{key: ""}) }
}

func setAsks(g *Group) {
	g.Sets[0].Annotations = map[string]string{v1alpha1.AnnotationUnfreeze: "please"}
}

// setFree makes a group one that a person has set free at noon.
func setFree(g *Group) { mark(g.owner(), false, metav1.ConditionFalse, ReasonByHand) }

func TestTheMessageOfAFreeze(t *testing.T) {
	g := &Group{Deployment: newDeployment(5), Living: 12}
	t.Run("says how many there are, how many are too many, when it ends, and how to lift it (MCM-70)", func(t *testing.T) {
		v := Judge(g, defaults, noon)
		for _, part := range []string{"12 living Machines", "8 freeze it", "at most 7 are left", v1alpha1.AnnotationUnfreeze} {
			if !strings.Contains(v.Message, part) {
				t.Errorf("%q does not say %q", v.Message, part)
			}
		}
	})
	t.Run("does not follow each number that comes after, so that it is written once (MCM-70)", func(t *testing.T) {
		first := Judge(g, defaults, noon)
		g.Deployment.Status.Conditions = []metav1.Condition{*newCondition(g.Deployment, first, noon)}
		g.Living = 40
		if second := Judge(g, defaults, noon); second.Message != first.Message || second.Reason != first.Reason {
			t.Errorf("it became %+v", second)
		}
	})
}

func TestLiving(t *testing.T) {
	d := newDeployment(5)
	a, b := newSet("a", 3, d), newSet("b", 2, d)
	machines := append(machinesOf(a, 3), machinesOf(b, 4)...)
	sets := []*v1alpha1.MachineSet{a, b}
	t.Run("the Machines of all sets count together (MCM-74)", func(t *testing.T) {
		if n := living(d, sets, objectsOf(machines...)); n != 7 {
			t.Errorf("%d are living, want 7", n)
		}
	})
	t.Run("two sets, each below the limit, freeze their deployment (MCM-74)", func(t *testing.T) {
		g := &Group{Deployment: d, Sets: sets, Living: living(d, sets, objectsOf(append(machinesOf(a, 4), machinesOf(b, 4)...)...))}
		if v := Judge(g, defaults, noon); !v.Frozen {
			t.Errorf("with %d it is free", g.Living)
		}
	})
	t.Run("those that are being deleted do not count, however long they drain (MCM-73)", func(t *testing.T) {
		machines[0].DeletionTimestamp = ptr.To(metav1.NewTime(noon))
		if n := living(d, sets, objectsOf(machines...)); n != 6 {
			t.Errorf("%d are living, want 6", n)
		}
	})
	t.Run("those that are listed for removal do not count either (MCM-73)", func(t *testing.T) {
		d.Spec.Removals = []v1alpha1.Removal{{Name: "a-1", UID: "a-1"}}
		a.Spec.Removals = []v1alpha1.Removal{{Name: "a-2", UID: "a-2"}}
		b.Spec.RolloutRemovals = []v1alpha1.Removal{{Name: "b-0", UID: "b-0"}}
		if n := living(d, sets, objectsOf(machines...)); n != 3 {
			t.Errorf("%d are living, want 3", n)
		}
	})
	t.Run("twenty that drain do not freeze a scale-up that follows (MCM-73)", func(t *testing.T) {
		d := newDeployment(3)
		a := newSet("a", 3, d)
		all := machinesOf(a, 23)
		for _, m := range all[:20] {
			m.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
		}
		g := &Group{Deployment: d, Sets: []*v1alpha1.MachineSet{a}}
		if g.Living = living(d, g.Sets, objectsOf(all...)); Judge(g, defaults, noon).Frozen {
			t.Errorf("with %d living ones it is frozen", g.Living)
		}
	})
}
