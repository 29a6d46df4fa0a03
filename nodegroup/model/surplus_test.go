package model

import (
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// crowd is a group of Machines of two templates, with more Machines than its size.
type crowd struct {
	*rapid.T
	world *pools.World
	pool  *pools.Pool
}

// change makes one random change to the group.
func (c *crowd) change() membership.Event {
	w := c.world
	n := rapid.IntRange(0, len(w.Machines)-1).Draw(c.T, "machine")
	m := w.Machines[n].DeepCopy()
	switch rapid.IntRange(0, 7).Draw(c.T, "what") {
	case 0:
		m.DeletionTimestamp = ptr.To(metav1.NewTime(pools.Noon))
	case 1:
		m.Annotations = map[string]string{v1alpha1.AnnotationPriority: strconv.Itoa(rapid.IntRange(1, 5).Draw(c.T, "priority"))}
	case 2:
		m.Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "now"}
	case 3:
		m.CreationTimestamp = metav1.NewTime(pools.Noon.Add(-time.Duration(rapid.IntRange(0, 9).Draw(c.T, "age")) * time.Minute))
	case 4:
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue}}
		m.Status.NodeRef = &corev1.ObjectReference{Name: m.Name}
	case 5:
		pools.Failed(fault.CodeNoValidHost, "no host")(m)
	case 6:
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: m.UID}, Spec: corev1.NodeSpec{ProviderID: pools.ProviderID(m.Name)}}
		w.Nodes = append(w.Nodes, node)
		return membership.Event{Object: node}
	case 7:
		d := c.pool.Deployment.DeepCopy()
		if rapid.Bool().Draw(c.T, "taken back") {
			d.Spec.Removals = nil
		}
		d.Spec.Removals = append(d.Spec.Removals, v1alpha1.Removal{Name: m.Name, UID: m.UID})
		d.Spec.Replicas = ptr.To(rapid.Int32Range(5, 40).Draw(c.T, "size"))
		c.pool.Deployment, w.Deployments[0] = d, d
		return membership.Event{Object: d}
	}
	w.Machines[n] = m
	return membership.Event{Object: m}
}

func TestSurplusMachinesDoNotDependOnHowASnapshotWasBuilt(t *testing.T) {
	t.Run("a snapshot that is updated event by event hides the same surplus Machines as one that is built at once (CA-C32, CA-C115)", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			w := pools.NewWorld()
			c := &crowd{T: r, world: w, pool: w.Pool("a", 20, 0, 50)}
			for i := range 40 {
				if i == 30 {
					c.pool.Set = c.pool.Revision(2)
				}
				if i%3 == 0 {
					c.pool.Machine(fmt.Sprintf("a-%02d", 39-i))
				} else {
					c.pool.Node(fmt.Sprintf("a-%02d", 39-i))
				}
			}
			for _, set := range w.Sets {
				set.Spec.DeletePolicy = rapid.SampledFrom([]v1alpha1.DeletePolicy{"", v1alpha1.DeleteNewest, v1alpha1.DeleteOldest}).Draw(r, "policy")
			}
			s := build(w, Discovery{})
			for range rapid.IntRange(1, 20).Draw(r, "rounds") {
				var events []membership.Event
				for range rapid.IntRange(1, 3).Draw(r, "events") {
					events = append(events, c.change())
				}
				if s = s.Apply(events, pools.Noon); s.flaw != nil {
					r.Fatal(s.flaw)
				}
				anew := build(w, Discovery{})
				got, want := maps.Clone(s.Groups[c.pool.ID()].Hidden), anew.Groups[c.pool.ID()].Hidden
				if diff := cmp.Diff(want, got); diff != "" {
					r.Fatalf("hidden Machines (-from scratch +incremental):\n%s", diff)
				}
			}
		})
	})
}
