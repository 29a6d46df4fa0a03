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
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestOneReplicaOfDroverRecordsWarningsAsEvents(t *testing.T) {
	start := func(t *testing.T, elected chan struct{}) *bench {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 1, 5)
		p.Deployment.Annotations[v1alpha1.AnnotationOptions+"scaledownunneededtime"] = "soon"
		return newBench(t, w, Options{Elected: elected, JoinTimeout: 10 * time.Minute})
	}
	t.Run("only the leader records an Event about a deployment with an unreadable option, and only once", func(t *testing.T) {
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
	t.Run("the Event about too short a provision time is recorded by the replica that the autoscaler calls, even if another one leads", func(t *testing.T) {
		b := start(t, make(chan struct{}))
		b.groups.Settings("MachineDeployment/kube-system/a", with(func(s *model.Settings) { s.ProvisionTime = time.Minute }))
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); strings.Count(said, "\n") != 1 || !strings.Contains(said, "--max-node-provision-time") {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("when a deployment gets a second problem, only an Event about the second problem is recorded", func(t *testing.T) {
		b := start(t, nil)
		b.groups.advisor.advise(b.groups.store.published())
		drain(b.recorder)
		d := b.deployment(&pools.Pool{Deployment: b.groups.store.newest.Groups["MachineDeployment/kube-system/a"].Owner.Object.(*v1alpha1.MachineDeployment)})
		d.Spec.Replicas = ptr.To[int32](9)
		if err := b.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		b.catchUp()
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); strings.Count(said, "\n") != 1 || !strings.Contains(said, "SizeOutOfBounds the size 9 is outside the bounds 1 and 5") {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("an Event explains the lower maximum while new servers do not become nodes (F-92)", func(t *testing.T) {
		w := pools.NewWorld()
		w.Pool("a", 2, 0, 5).Deployment.Status.RecentJoins = "f"
		b := newBench(t, w, Options{JoinTimeout: 10 * time.Minute})
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); strings.Count(said, "\n") != 1 || !strings.Contains(said, "JoinsKeepFailing") {
			t.Errorf("it says %q", said)
		}
	})
}

func TestASizeThatAUserHasEdited(t *testing.T) {
	for name, tc := range map[string]struct {
		size    int32
		says    string
		grows   model.Kind
		shrinks model.Kind
	}{
		"a size within the bounds stays, and no Event reports the size (CAPI-13)":                                      {4, "", "", ""},
		"a size above the maximum stays, an Event reports it, and calls of the autoscaler can only lower it (CAPI-13)": {7, "SizeOutOfBounds", model.FailedPrecondition, ""},
		"a size below the minimum stays, an Event reports it, and calls of the autoscaler can only raise it (CAPI-13)": {1, "SizeOutOfBounds", "", model.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 3, 2, 5)
			_, n := p.Node("a-1")
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
			wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), tc.grows)
			if tc.grows == "" {
				wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -1), "")
			}
			wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), tc.shrinks)
		})
	}
}

func TestADeploymentWithInvalidBounds(t *testing.T) {
	t.Run("a deployment with invalid bounds does not affect other groups, and a metric reports the deployment (CAPI-11)", func(t *testing.T) {
		for i, change := range []func(d *v1alpha1.MachineDeployment){
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "many" },
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMinSize[0]] = "9" },
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMinSize[0]] = "-1" },
		} {
			w := pools.NewWorld()
			good, bad := w.Pool("good", 1, 0, 5), w.Pool("bad", 1, 0, 5)
			_, n := good.Node("good-1")
			_, its := bad.Node("bad-1")
			change(bad.Deployment)
			registry := prometheus.NewRegistry()
			b := newBench(t, w, Options{Registry: registry})
			wantKind(t, b.groups.Refresh(t.Context()), "")
			if list := b.groups.List(); len(list) != 1 || list[0].ID != good.ID() {
				t.Errorf("%d: the groups are %v", i, list)
			}
			if g, ok := b.groups.ForNode(pools.Asked(n)); !ok || g.ID != good.ID() {
				t.Errorf("%d: its node belongs to %v", i, g)
			}
			if g, ok := b.groups.ForNode(pools.Asked(its)); ok {
				t.Errorf("%d: the bad one's node belongs to %v", i, g)
			}
			wantKind(t, b.groups.IncreaseSize(t.Context(), good.ID(), 1), "")
			want := fmt.Sprintf("# HELP drover_nodegroup_invalid 1 for an object with bounds that cannot be read, which is therefore not a node group.\n# TYPE drover_nodegroup_invalid gauge\ndrover_nodegroup_invalid{group=%q} 1\n", bad.ID())
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "drover_nodegroup_invalid"); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}
