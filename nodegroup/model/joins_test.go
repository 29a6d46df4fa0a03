package model

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/pools"
)

func TestTheMaximumThatTheAutoscalerReceives(t *testing.T) {
	const late = 12 * time.Minute
	machines := func(names ...string) func(*pools.Pool) {
		return func(p *pools.Pool) {
			for _, name := range names {
				p.Machine(name, pools.WithServer).CreationTimestamp = metav1.NewTime(pools.Noon)
			}
		}
	}
	nodes := func(names ...string) func(*pools.Pool) {
		return func(p *pools.Pool) {
			for _, name := range names {
				p.Node(name)
			}
		}
	}
	joins := func(letters string) func(*pools.Pool) {
		return func(p *pools.Pool) { p.Deployment.Status.RecentJoins = letters }
	}
	refused := func(p *pools.Pool) {
		p.Set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReplicaFailure, Status: metav1.ConditionTrue}}
	}
	for name, c := range map[string]struct {
		size, low int32
		with      []func(*pools.Pool)
		after     time.Duration
		want      int32
	}{
		"is that of the annotation in a group without failed joins":                                              {3, 0, []func(*pools.Pool){nodes("a", "b"), machines("c")}, 0, 9},
		"is that of the annotation when fewer than half of the joins failed":                                     {2, 0, []func(*pools.Pool){joins("jjf"), nodes("a"), machines("b")}, 0, 9},
		"is the size while joins fail (F-92)":                                                                    {3, 0, []func(*pools.Pool){joins("f"), machines("a", "b", "c")}, 0, 3},
		"allows one order in a group of size 0 whose joins failed, so that it can recover (F-92)":                {0, 0, []func(*pools.Pool){joins("ffffffffff")}, 0, 1},
		"allows one order more when all ordered nodes have joined (F-92)":                                        {2, 0, []func(*pools.Pool){joins("fj"), nodes("a", "b")}, 0, 3},
		"is at least the minimum (F-92)":                                                                         {0, 2, []func(*pools.Pool){joins("f")}, 0, 2},
		"is that of the annotation when a client has set a larger size (F-92)":                                   {12, 0, []func(*pools.Pool){joins("f")}, 0, 9},
		"is that of the annotation until Machines are late":                                                      {2, 0, []func(*pools.Pool){machines("a", "b")}, late - time.Second, 9},
		"is the size when Machines are late although no failure is recorded, as with a long join timeout (F-92)": {2, 0, []func(*pools.Pool){machines("a", "b")}, late, 2},
		"is that of the annotation when more Machines have joined than are late":                                 {3, 0, []func(*pools.Pool){nodes("a", "b"), machines("c")}, late, 9},
		"is the size while the set cannot create Machines (F-92)":                                                {2, 0, []func(*pools.Pool){refused}, 0, 2},
		"is that of the annotation when few of the Machines cannot be created":                                   {3, 0, []func(*pools.Pool){refused, nodes("a", "b")}, 0, 9},
		"is that of the annotation in a group that scales only between zero and its maximum": {0, 0, []func(*pools.Pool){joins("f"), func(p *pools.Pool) {
			p.Deployment.Annotations[v1alpha1.AnnotationOptions+"zeroormaxnodescaling"] = "true"
		}}, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", c.size, c.low, 9)
			for _, change := range c.with {
				change(p)
			}
			s := buildBy(w, Rules{JoinTimeout: 10 * time.Minute, ZeroOrMax: true}).Apply(nil, pools.Noon.Add(c.after))
			if list := NewView(s, s.now, nil).List(); list[0].Max != c.want || list[0].Min != c.low {
				t.Errorf("the autoscaler receives %+v, want a maximum of %d", list[0], c.want)
			}
		})
	}
}
