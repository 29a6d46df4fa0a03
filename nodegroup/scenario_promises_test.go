package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// answers returns, as text, everything that an autoscaler can read about groups, instances and the given nodes.
func answers(t *testing.T, g *Groups, nodes []membership.Node) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, group := range g.List() {
		size, first := g.TargetSize(group.ID)
		list, second := g.Instances(group.ID)
		if first != nil || second != nil {
			t.Errorf("CA-C14 %s: %v, %v", group.ID, first, second)
		}
		out[group.ID] = fmt.Sprint(group.Min, group.Max, size, group.Debug)
		for _, i := range list {
			out[i.ID] = fmt.Sprint(i.State, i.Error)
		}
	}
	for _, n := range nodes {
		group, _ := g.ForNode(n)
		out["node "+n.String()] = group.ID
	}
	return out
}

func TestANewReplicaOfDroverGivesTheSameAnswersAsAnOlderReplica(t *testing.T) {
	w := pools.NewWorld()
	a, z := w.Pool("a", 4, 0, 9), w.Pool("z", 2, 1, 9)
	_, first := a.Node("a-1")
	_, second := a.Node("a-2")
	a.Machine("a-3", pools.Failed(fault.CodeNoValidHost, "no host"))
	_, third := z.Node("z-1")
	nodes := []membership.Node{pools.Asked(first), pools.Asked(second), pools.Asked(third)}
	b := newBench(t, w)
	wantKind(t, b.groups.IncreaseSize(t.Context(), a.ID(), 2), "")
	wantKind(t, b.groups.DeleteNodes(t.Context(), a.ID(), []membership.Node{pools.Asked(first)}), "")
	wantKind(t, b.groups.DecreaseTargetSize(t.Context(), z.ID(), -1), "")
	t.Run("a replica that has just started gives the same answers as one that has made changes (CA-C04, CA-C05)", func(t *testing.T) {
		b.catchUp()
		successor := &bench{t: t, client: b.client, clock: b.clock, recorder: b.recorder}
		successor.groups = newGroups(parts{source: successor, live: b.client, nodes: b.client, writer: b.client, recorder: b.recorder, options: Options{Clock: b.clock, Discovery: b.options.Discovery, Reach: b.reach()}})
		successor.watch()
		wantKind(t, successor.groups.store.renew(true), "")
		if diff := cmp.Diff(answers(t, b.groups, nodes), answers(t, successor.groups, nodes)); diff != "" {
			t.Errorf("the answers differ (-before +after):\n%s", diff)
		}
	})
}

func TestAGroupIsListedInEveryState(t *testing.T) {
	for name, change := range map[string]func(p *pools.Pool){
		"a group is listed when its template is unknown (CA-C19)":                  func(p *pools.Pool) { p.Deployment.Status.NodeTemplate = nil },
		"a group is listed before the watch has delivered its MachineSet (CA-C19)": func(p *pools.Pool) { p.World.Sets = nil },
		"a group is listed while the cloud does not answer (CA-C19)": func(p *pools.Pool) {
			p.World.Machines[0].Status.ErrorReason = ptr.To(string(fault.CodeCloudUnavailable))
		},
		"a group is listed when a rollout begins (CA-C19)":     func(p *pools.Pool) { p.Revision(2) },
		"a group is listed while rollouts are paused (CA-C19)": func(p *pools.Pool) { p.Deployment.Spec.Paused = true },
		"a group is listed while it is frozen (CA-C19)": func(p *pools.Pool) {
			p.Deployment.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue}}
		},
		"a group is listed when a client has removed spec.replicas (CA-C19)": func(p *pools.Pool) {
			p.Deployment.Spec.Replicas, p.Deployment.Status.LastReplicas = nil, ptr.To[int32](4)
		},
		"a group is listed while all its Machines are being replaced (CA-C19)": func(p *pools.Pool) { pools.Deleting(p.World.Machines[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 4, 0, 9)
			p.Machine("a-1")
			change(p)
			if list := newBench(t, w).groups.List(); len(list) != 1 {
				t.Errorf("the groups are %v, want one", list)
			}
		})
	}
}

func TestIncreasesWhileTheCloudDoesNotAnswerForAnHour(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 9)
	_, n := p.Node("a-1")
	p.Machine("a-2", func(m *v1alpha1.Machine) {
		pools.Failed(fault.CodeCloudUnavailable, "no answer")(m)
		m.CreationTimestamp = metav1.NewTime(pools.Noon)
	})
	b := newBench(t, w)
	for minute := range 60 {
		b.groups.freshness.reach.AnsweredControl()
		wantKind(t, b.groups.Refresh(t.Context()), "")
		got := answers(t, b.groups, []membership.Node{pools.Asked(n)})
		shown := got[pools.MachineID(p, "a-2")] != fmt.Sprint(model.Creating, (*model.InstanceError)(nil))
		if want := minute >= 5; shown != want {
			t.Fatalf("CA-C112 CA-C47 after %d minutes the error is shown: %v", minute, shown)
		}
		if got["node "+pools.Asked(n).String()] != p.ID() {
			t.Fatalf("CA-C112 the node belongs to nobody")
		}
		b.clock.Step(time.Minute)
	}
	t.Run("increases are accepted while the cloud does not answer (CA-C112)", func(t *testing.T) {
		b.groups.freshness.reach.AnsweredControl()
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
	})
}

func TestEachCallOfTheAutoscalerMakesAtMostOneWrite(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 5, 0, 20)
	_, n := p.Node("a-1")
	b := newBench(t, w)
	for _, tc := range []struct {
		name string
		call func() error
	}{
		{"IncreaseSize makes one write and returns without waiting (CA-C61)", func() error { return b.groups.IncreaseSize(t.Context(), p.ID(), 3) }},
		{"DeleteNodes makes one write and returns without waiting", func() error { return b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}) }},
		{"DecreaseTargetSize makes one write and returns without waiting", func() error { return b.groups.DecreaseTargetSize(t.Context(), p.ID(), -2) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patches, gets := b.patches.Load(), b.gets.Load()
			// The clock does not advance: a call that waits would never return.
			wantKind(t, tc.call(), "")
			if b.patches.Load()-patches != 1 || b.gets.Load() != gets || b.clock.HasWaiters() {
				t.Errorf("%d writes, %d reads, waiting %v", b.patches.Load()-patches, b.gets.Load()-gets, b.clock.HasWaiters())
			}
		})
	}
	t.Run("a Refresh makes no call to the API server (CA-C16, CAPI-3, MC-74)", func(t *testing.T) {
		patches, gets := b.patches.Load(), b.gets.Load()
		wantKind(t, b.groups.Refresh(t.Context()), "")
		if b.patches.Load() != patches || b.gets.Load() != gets || b.lists.Load() != 0 {
			t.Error("it made calls to the API server")
		}
	})
}

func TestIncreasesAndDecreasesWhileMachinesArePending(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 5, 0, 9)
	p.Node("a-1")
	p.Machine("a-2")
	b := newBench(t, w)
	t.Run("an increase adds the whole delta to the size although Machines are pending (CA-C64)", func(t *testing.T) {
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 2), "")
		b.expect(p, 7)
	})
	t.Run("an increase above the maximum is refused, and DecreaseTargetSize removes no node (MC-70, MCM-93)", func(t *testing.T) {
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 3), model.FailedPrecondition)
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -9), "")
		b.expect(p, 1, "a-2")
	})
}

// TestASnapshotThatBreaksAnInvariantIsNotServed simulates a broken invariant, because no input breaks one.
func TestASnapshotThatBreaksAnInvariantIsNotServed(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 9)
	_, n := p.Node("a-1")
	b := newBench(t, w)
	before := answers(t, b.groups, []membership.Node{pools.Asked(n)})
	b.groups.store.flaw = func(*model.Snapshot) error { return errors.New("an instance is in two groups") }
	b.groups.store.inbox.put(membership.Event{Object: p.Machine("a-2")})
	t.Run("Refresh fails while the newest snapshot breaks an invariant (CA-C13)", func(t *testing.T) { wantKind(t, b.groups.Refresh(t.Context()), model.Unavailable) })
	t.Run("reads are answered from the last snapshot that breaks no invariant (CA-C53)", func(t *testing.T) {
		if diff := cmp.Diff(before, answers(t, b.groups, []membership.Node{pools.Asked(n)})); diff != "" {
			t.Errorf("the answers differ:\n%s", diff)
		}
	})
}

// core imitates how cluster-autoscaler, from release 1.36 on, counts upcoming nodes: only while the process remembers its own
// increase of the group.
type core struct {
	groups  *Groups
	ordered map[string]bool
}

// loop runs one loop of the autoscaler in a cluster in which each pod needs a node of its own, and increases groups by the
// missing nodes.
func (c *core) loop(t *testing.T, pods int) {
	t.Helper()
	wantKind(t, c.groups.Refresh(t.Context()), "")
	for _, g := range c.groups.List() {
		size, _ := c.groups.TargetSize(g.ID)
		instances, _ := c.groups.Instances(g.ID)
		ready := len(instances) - len(slices.DeleteFunc(slices.Clone(instances), func(i model.Instance) bool { return i.State == model.Running }))
		coming := 0
		if c.ordered[g.ID] {
			coming = int(size) - ready
		}
		missing := int32(pods - ready - coming)
		if missing = min(missing, g.Max-size); missing > 0 {
			wantKind(t, c.groups.IncreaseSize(t.Context(), g.ID, missing), "")
			c.ordered[g.ID] = true
		}
	}
}

func TestAnAutoscalerThatRestartsDuringItsScaleUp(t *testing.T) {
	// start returns a group of three nodes. An autoscaler has ordered two more nodes before its restart.
	start := func(t *testing.T, guard time.Duration) (*bench, *pools.Pool, *core) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 0, 20)
		for _, name := range []string{"a-1", "a-2", "a-3"} {
			m, _ := p.Node(name)
			pools.TakesPods(m)
		}
		b := newBench(t, w, Options{RestartGuard: guard, StartupTaint: v1alpha1.DefaultStartupTaint})
		first := &core{b.groups, map[string]bool{}}
		b.groups.Started()
		first.loop(t, 5)
		first.loop(t, 5)
		b.expect(p, 5)
		b.groups.Started()
		return b, p, &core{b.groups, map[string]bool{}}
	}
	// arrive makes a node of the group register and take pods.
	arrive := func(b *bench, p *pools.Pool, name string, change ...func(*corev1.Node)) {
		m, n := p.Node(name)
		pools.TakesPods(m)
		for _, c := range change {
			c(n)
		}
		m.ResourceVersion, n.ResourceVersion = "", ""
		for _, err := range []error{b.client.Create(b.t.Context(), m), b.client.Create(b.t.Context(), n)} {
			if err != nil {
				b.t.Fatal(err)
			}
		}
		b.catchUp()
	}
	t.Run("without the restart guard the autoscaler requests the two upcoming nodes again", func(t *testing.T) {
		b, p, second := start(t, 0)
		second.loop(t, 5)
		b.expect(p, 7)
	})
	t.Run("with the restart guard the autoscaler does not request the two upcoming nodes again", func(t *testing.T) {
		b, p, second := start(t, 15*time.Minute)
		for range 3 {
			second.loop(t, 5)
		}
		b.expect(p, 5)
		t.Run("the guard also refuses a node for one more pod until both upcoming nodes have started", func(t *testing.T) {
			second.loop(t, 6)
			arrive(b, p, "a-4")
			second.loop(t, 6)
			b.expect(p, 5)
			starting := func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.DefaultStartupTaint, Effect: corev1.TaintEffectNoSchedule}}
			}
			arrive(b, p, "a-5", starting)
			b.clock.Step(settledAfter)
			second.loop(t, 6)
			b.expect(p, 5)
			n := &corev1.Node{}
			if err := b.client.Get(t.Context(), client.ObjectKey{Name: "a-5"}, n); err != nil {
				t.Fatal(err)
			}
			n.Spec.Taints = nil
			if err := b.client.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			b.catchUp()
			second.loop(t, 6)
			b.expect(p, 5)
			b.clock.Step(settledAfter)
			second.loop(t, 6)
			b.expect(p, 6)
		})
	})
	t.Run("once the time of the restart guard is over, the autoscaler can request the upcoming nodes again", func(t *testing.T) {
		b, p, second := start(t, 15*time.Minute)
		b.clock.Step(15 * time.Minute)
		b.groups.freshness.reach.AnsweredControl()
		second.loop(t, 6)
		b.expect(p, 8)
	})
	t.Run("the restart guard does not delay an increase of a group whose requested nodes have all started", func(t *testing.T) {
		b, p, second := start(t, 15*time.Minute)
		arrive(b, p, "a-4")
		arrive(b, p, "a-5")
		b.groups.Started()
		second.loop(t, 5)
		b.clock.Step(settledAfter)
		second.loop(t, 6)
		b.expect(p, 6)
	})
}

func TestParallelIncreasesOfOneGroupAreWrittenOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 0, 0, 10)
		b := newBench(t, w)
		goOn := make(chan struct{})
		b.beforePatch = func(n int32) error {
			if n == 1 {
				<-goOn
			}
			return nil
		}
		answers := make(chan error, 8)
		increase := func(ctx context.Context) {
			go func() { answers <- b.groups.IncreaseSize(ctx, p.ID(), 2) }()
			synctest.Wait()
		}
		for range 7 {
			increase(t.Context())
		}
		canceled, cancel := context.WithCancel(t.Context())
		increase(canceled)
		cancel()
		wantKind(t, <-answers, model.Unavailable)
		close(goOn)
		kinds := map[model.Kind]int{}
		for range 7 {
			kinds[model.KindOf(<-answers)]++
		}
		if kinds[""] != 5 || kinds[model.FailedPrecondition] != 2 {
			t.Errorf("CA-C57 CA-C59 the answers are %v, want 5 without an error and 2 that are refused at the maximum", kinds)
		}
		if got := b.patches.Load(); got != 5 {
			t.Errorf("CA-C12 CA-C59 %d writes were made, want one for each that was accepted, none for the one that was given up", got)
		}
		b.expect(p, 10)
	})
}
