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

func TestAGroupIsFrozenOnlyWhenItsMachinesReachTheLimit(t *testing.T) {
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
		"is not frozen with as many Machines as its size":                                                                                  {size: 5, living: 5},
		"is not frozen with as many Machines as size plus surge, as in every rollout":                                                      {size: 5, living: 6},
		"is not frozen with one Machine less than size plus surge plus --safety-up (MCM-70)":                                               {size: 5, living: 7},
		"is frozen with as many Machines as size plus surge plus --safety-up (MCM-70)":                                                     {size: 5, living: 8, want: true},
		"is frozen with more Machines than size plus surge plus --safety-up (MCM-70)":                                                      {size: 5, living: 100, want: true},
		"is not frozen with as many Machines as size plus surge plus 2 when --safety-up is 3 (MCM-70)":                                     {size: 5, living: 8, limits: Limits{Up: 3, Down: 1, Period: time.Minute}},
		"is not frozen below the limit, for which a maxSurge in percent is rounded up (MCM-70)":                                            {size: 5, living: 8, change: surge("25%")},
		"is frozen at the limit when the surge is a percentage, which is rounded up (MCM-70)":                                              {size: 5, living: 9, change: surge("25%"), want: true},
		"is frozen at size 0 with as many Machines as surge plus --safety-up (MCM-70)":                                                     {size: 0, living: 3, want: true},
		"stays frozen with more Machines than the limit minus --safety-down (MCM-71)":                                                      {size: 5, living: 8, change: frozen, want: true},
		"is no longer frozen with as many Machines as the limit minus --safety-down (MCM-71)":                                              {size: 5, living: 7, change: frozen},
		"stays frozen with one Machine less than the limit when --safety-down is 2 (MCM-71)":                                               {size: 5, living: 7, change: frozen, limits: Limits{Up: 2, Down: 2, Period: time.Minute}, want: true},
		"is no longer frozen with two Machines less than the limit when --safety-down is 2 (MCM-71)":                                       {size: 5, living: 6, change: frozen, limits: Limits{Up: 2, Down: 2, Period: time.Minute}},
		"is no longer frozen after the group's size was raised (MCM-71)":                                                                   {size: 20, living: 8, change: frozen},
		"is not frozen when it is a bare set and has one Machine more than twice its size (MCM-72)":                                        {bare: true, size: 3, living: 7},
		"is frozen when it is a bare set and has as many Machines as twice its size plus --safety-up (MCM-72)":                             {bare: true, size: 3, living: 8, want: true},
		"is no longer frozen when it is a bare set and has fewer Machines than twice its size plus --safety-up (MCM-72)":                   {bare: true, size: 3, living: 7, change: frozen},
		"is frozen with the strategy OnDelete at the limit (MCM-75)":                                                                       {size: 5, living: 8, change: strategy(v1alpha1.OnDelete), want: true},
		"is frozen with the strategy Recreate at the limit (MCM-75)":                                                                       {size: 5, living: 8, change: strategy(v1alpha1.Recreate), want: true},
		"is not frozen with the strategy Recreate below the limit (MCM-75)":                                                                {size: 5, living: 7, change: strategy(v1alpha1.Recreate)},
		"is frozen at size plus 1 plus --safety-up when its deployment has no strategy, because the default surge is 1 (MCM-75)":           {size: 5, living: 8, change: func(g *Group) { g.Deployment.Spec.Strategy = nil }, want: true},
		"is not frozen below twice its size plus --safety-up when maxSurge is invalid, because the surge then counts as 100 % (MCM-75)":    {size: 5, living: 11, change: surge("many")},
		"is frozen at twice its size plus --safety-up when maxSurge is invalid, because the surge then counts as 100 % (MCM-75)":           {size: 5, living: 12, change: surge("many"), want: true},
		"is frozen when spec.replicas is missing and the Machines reach the limit for the size in status.lastReplicas (MCM-75)":            {size: 5, living: 8, change: sizeless(ptr.To[int32](5)), want: true},
		"is not frozen when spec.replicas and status.lastReplicas are missing (MCM-75)":                                                    {size: 5, living: 100, change: sizeless(nil)},
		"stays frozen when spec.replicas and status.lastReplicas are missing (MCM-75)":                                                     {size: 5, living: 0, change: func(g *Group) { frozen(g); sizeless(nil)(g) }, want: true},
		"is not frozen with a negative size (MCM-75)":                                                                                      {size: -1, living: 100},
		"is not frozen with the unfreeze annotation, however many Machines there are (MCM-77)":                                             {size: 5, living: 100, change: func(g *Group) { frozen(g); asks(v1alpha1.AnnotationUnfreeze)(g) }},
		"is not frozen with machine-controller-manager's unfreeze annotation (MCM-77)":                                                     {size: 5, living: 100, change: func(g *Group) { frozen(g); asks(v1alpha1.AnnotationUnfreezeMCM)(g) }},
		"is not frozen with the unfreeze annotation on a set (MCM-77)":                                                                     {size: 5, living: 100, change: func(g *Group) { frozen(g); setAsks(g) }},
		"is not frozen again within one --machine-safety-overshooting-period after an operator's unfreeze (MCM-77)":                        {size: 5, living: 100, change: setFree, at: 59 * time.Second},
		"is frozen again one --machine-safety-overshooting-period after an operator's unfreeze when its Machines reach the limit (MCM-77)": {size: 5, living: 8, change: setFree, at: time.Minute, want: true},
		"is frozen again at once when the previous freeze was not ended by an operator (MCM-77)":                                           {size: 5, living: 8, change: func(g *Group) { mark(g.owner(), false, metav1.ConditionFalse, ReasonWithin) }, want: true},
		"is not frozen below the limit, even when an operator has set the freeze label (MCM-78)":                                           {size: 5, living: 7, change: func(g *Group) { mark(g.owner(), true, "", "") }},
		"is no longer frozen when it has neither sets nor Machines (MCM-78)":                                                               {size: 5, living: 0, change: func(g *Group) { frozen(g); g.Sets = nil }},
		"stays frozen while it is paused, even without Machines, because drover does not change a paused group":                            {size: 5, living: 0, change: func(g *Group) { frozen(g); g.Deployment.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} }, want: true},
		"is not frozen with too many Machines while it is paused, because drover does not change a paused group":                           {size: 5, living: 100, change: func(g *Group) { g.Deployment.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} }},
		"is not frozen while it is being deleted, even with too many Machines, because drover writes nothing to it then":                   {size: 5, living: 100, change: func(g *Group) { g.Deployment.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }},
		"is not frozen right after its size was lowered, with as many Machines as the earlier size plus surge":                             {size: 5, living: 21, change: func(g *Group) { g.Former = 21 }},
		"is frozen right after its size was lowered when its Machines reach the earlier size plus surge plus --safety-up":                  {size: 5, living: 23, change: func(g *Group) { g.Former = 21 }, want: true},
		"stays frozen right after its size was lowered, because the earlier size plus surge counts only for the start of a freeze":         {size: 5, living: 21, change: func(g *Group) { frozen(g); g.Former = 21 }, want: true},
		"is not frozen with too many Machines when --machine-safety-overshooting-period is 0, which switches freezes off":                  {size: 5, living: 100, limits: Limits{Up: 2, Down: 1}},
		"is no longer frozen with too many Machines when --machine-safety-overshooting-period is 0, which switches freezes off":            {size: 5, living: 100, change: frozen, limits: Limits{Up: 2, Down: 1}},
		"is not frozen with eight Machines when size and surge are so large that their sum could overflow":                                 {size: v1alpha1.MaxReplicas, living: 8, change: surge("2147483647%")},
		"is not frozen after a change of its size while the earlier size is unknown":                                                       {size: 5, living: 8, change: func(g *Group) { g.Former = unknown }},
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

// setFree changes a group as if an operator had ended its freeze at noon.
func setFree(g *Group) { mark(g.owner(), false, metav1.ConditionFalse, ReasonByHand) }

func TestTheMessageOfAFreeze(t *testing.T) {
	g := &Group{Deployment: newDeployment(5), Living: 12}
	t.Run("names the number of Machines, the numbers at which the freeze starts and ends, and the unfreeze annotation (MCM-70)", func(t *testing.T) {
		v := Judge(g, defaults, noon)
		for _, part := range []string{"12 living Machines", "is frozen from 8 on", "at most 7 are left", v1alpha1.AnnotationUnfreeze} {
			if !strings.Contains(v.Message, part) {
				t.Errorf("the message is %q, want it to contain %q", v.Message, part)
			}
		}
	})
	t.Run("stays the same when the number of Machines changes later, so that drover writes it once (MCM-70)", func(t *testing.T) {
		first := Judge(g, defaults, noon)
		g.Deployment.Status.Conditions = []metav1.Condition{*newCondition(g.Deployment, first, noon)}
		g.Living = 40
		if second := Judge(g, defaults, noon); second.Message != first.Message || second.Reason != first.Reason {
			t.Errorf("the second message is %+v", second)
		}
	})
}

func TestTheFreezeCountsTheLivingMachinesOfAGroupAndNoOthers(t *testing.T) {
	d := newDeployment(5)
	a, b := newSet("a", 3, d), newSet("b", 2, d)
	machines := append(machinesOf(a, 3), machinesOf(b, 4)...)
	sets := []*v1alpha1.MachineSet{a, b}
	t.Run("adds up the living Machines of a deployment's two sets (MCM-74)", func(t *testing.T) {
		if n := living(d, sets, objectsOf(machines...)); n != 7 {
			t.Errorf("%d are living, want 7", n)
		}
	})
	t.Run("freezes a deployment whose two sets together have as many Machines as the limit (MCM-74)", func(t *testing.T) {
		g := &Group{Deployment: d, Sets: sets, Living: living(d, sets, objectsOf(append(machinesOf(a, 4), machinesOf(b, 4)...)...))}
		if v := Judge(g, defaults, noon); !v.Frozen {
			t.Errorf("with %d the group is not frozen", g.Living)
		}
	})
	t.Run("leaves out Machines that are being deleted, however long they drain (MCM-73)", func(t *testing.T) {
		machines[0].DeletionTimestamp = ptr.To(metav1.NewTime(noon))
		if n := living(d, sets, objectsOf(machines...)); n != 6 {
			t.Errorf("%d are living, want 6", n)
		}
	})
	t.Run("leaves out Machines that are listed for removal (MCM-73)", func(t *testing.T) {
		d.Spec.Removals = []v1alpha1.Removal{{Name: "a-1", UID: "a-1"}}
		a.Spec.Removals = []v1alpha1.Removal{{Name: "a-2", UID: "a-2"}}
		b.Spec.RolloutRemovals = []v1alpha1.Removal{{Name: "b-0", UID: "b-0"}}
		if n := living(d, sets, objectsOf(machines...)); n != 3 {
			t.Errorf("%d are living, want 3", n)
		}
	})
	t.Run("does not freeze a group of size 3 with 3 living Machines while 20 others drain (MCM-73)", func(t *testing.T) {
		d := newDeployment(3)
		a := newSet("a", 3, d)
		all := machinesOf(a, 23)
		for _, m := range all[:20] {
			m.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
		}
		g := &Group{Deployment: d, Sets: []*v1alpha1.MachineSet{a}}
		if g.Living = living(d, g.Sets, objectsOf(all...)); Judge(g, defaults, noon).Frozen {
			t.Errorf("with %d living Machines the group is frozen", g.Living)
		}
	})
}
