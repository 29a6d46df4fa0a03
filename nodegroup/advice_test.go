package nodegroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhoTellsPeople(t *testing.T) {
	start := func(t *testing.T, elected chan struct{}) *bench {
		w := newWorld()
		p := w.pool("a", 2, 1, 5)
		p.deployment.Annotations[v1alpha1.AnnotationOptions+"scaledownunneededtime"] = "soon"
		return newBench(t, w, Options{Elected: elected, JoinTimeout: 10 * time.Minute})
	}
	t.Run("of what an object says, the replica that leads, and no other", func(t *testing.T) {
		elected := make(chan struct{})
		b := start(t, elected)
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); said != "" {
			t.Errorf("a follower says %q", said)
		}
		close(elected)
		b.groups.advisor.advise(b.groups.store.published())
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); strings.Count(said, "\n") != 1 || !strings.Contains(said, "soon") {
			t.Errorf("the leader says %q", said)
		}
	})
	t.Run("of what an autoscaler has said, the replica that it said it to", func(t *testing.T) {
		b := start(t, make(chan struct{}))
		b.groups.Settings("MachineDeployment/kube-system/a", with(func(s *Settings) { s.ProvisionTime = time.Minute }))
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); strings.Count(said, "\n") != 1 || !strings.Contains(said, "--max-node-provision-time") {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("of one more problem, that one alone", func(t *testing.T) {
		b := start(t, nil)
		b.groups.advisor.advise(b.groups.store.published())
		drain(b.recorder)
		d := b.deployment(&pool{deployment: b.groups.store.newest.groups["MachineDeployment/kube-system/a"].owner.Object.(*v1alpha1.MachineDeployment)})
		d.Spec.Replicas = ptr.To[int32](9)
		if err := b.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		b.catchUp()
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); strings.Count(said, "\n") != 1 || !strings.Contains(said, "SizeOutOfBounds the size is 9, and its bounds are 1 and 5") {
			t.Errorf("it says %q", said)
		}
	})
}

func TestASizeEditedByHand(t *testing.T) {
	for name, tc := range map[string]struct {
		size    int32
		says    string
		grows   Kind
		shrinks Kind
	}{
		"CAPI-13 inside the bounds it is followed":                                 {4, "", "", ""},
		"CAPI-13 above the maximum it is followed and told; it shrinks, no more":   {7, "SizeOutOfBounds", FailedPrecondition, ""},
		"CAPI-13 below the minimum it is followed and told; it grows, and no less": {1, "SizeOutOfBounds", "", FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			p := w.pool("a", 3, 2, 5)
			_, n := p.node("a-1")
			b := newBench(t, w)
			d := b.deployment(p)
			d.Spec.Replicas = &tc.size
			if err := b.client.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			b.catchUp()
			b.expect(p, tc.size)
			b.groups.advisor.advise(b.groups.store.published())
			if said := drain(b.recorder); !strings.Contains(said, tc.says) || tc.says == "" && said != "" {
				t.Errorf("the Events are %q", said)
			}
			wantKind(t, b.groups.IncreaseSize(t.Context(), p.id(), 1), tc.grows)
			if tc.grows == "" {
				wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.id(), -1), "")
			}
			wantKind(t, b.groups.DeleteNodes(t.Context(), p.id(), []Node{asked(n)}), tc.shrinks)
		})
	}
}

func TestABadDeployment(t *testing.T) {
	t.Run("CAPI-11 leaves the others as they are, and has a metric", func(t *testing.T) {
		for i, change := range []func(d *v1alpha1.MachineDeployment){
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "many" },
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMinSize[0]] = "9" },
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMinSize[0]] = "-1" },
		} {
			w := newWorld()
			good, bad := w.pool("good", 1, 0, 5), w.pool("bad", 1, 0, 5)
			_, n := good.node("good-1")
			_, its := bad.node("bad-1")
			change(bad.deployment)
			registry := prometheus.NewRegistry()
			b := newBench(t, w, Options{Registry: registry})
			wantKind(t, b.groups.Refresh(t.Context()), "")
			if list := b.groups.List(); len(list) != 1 || list[0].ID != good.id() {
				t.Errorf("%d: the groups are %v", i, list)
			}
			if g, ok := b.groups.ForNode(asked(n)); !ok || g.ID != good.id() {
				t.Errorf("%d: its node belongs to %v", i, g)
			}
			if g, ok := b.groups.ForNode(asked(its)); ok {
				t.Errorf("%d: the bad one's node belongs to %v", i, g)
			}
			wantKind(t, b.groups.IncreaseSize(t.Context(), good.id(), 1), "")
			want := fmt.Sprintf("# HELP drover_nodegroup_invalid 1 for an object with bounds that cannot be read, which is no node group therefore.\n# TYPE drover_nodegroup_invalid gauge\ndrover_nodegroup_invalid{group=%q} 1\n", bad.id())
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "drover_nodegroup_invalid"); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}
