package set

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// pool is a deployment of size 3 and surge 1 with two sets: the current one, which lacks one of its two Machines, and an old one.
type pool struct {
	*testing.T
	r *Reconciler
}

// newPool returns a pool whose old set has the given number of Machines. With the current set's Machine, the limit is 6.
func newPool(t *testing.T, old int) *pool {
	r, _ := withClient(t, func(int) error { return nil })
	p := &pool{t, with(r, func(o *Options) { o.Frozen = ownership.NewFrozenMetric() })}
	for name, replicas := range map[string]int32{"set": 2, "old": 1} {
		s := testSet(replicas)
		s.Name, s.UID, s.Finalizers = name, types.UID(name), []string{metav1.FinalizerDeleteDependents}
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "pool", UID: "pool"}, v1alpha1.MachineDeploymentKind)}
		s.Annotations = map[string]string{v1alpha1.AnnotationMaxReplicas: "4"}
		must(t, rollout.Decide(s))
		must(t, r.client.Create(t.Context(), s))
	}
	p.add("set", 0, 1)
	p.add("old", 0, old)
	return p
}

// add creates Machines of a set, as a faulty program does.
func (p *pool) add(set string, from, to int) {
	p.Helper()
	for i := from; i < to; i++ {
		m := newMachine(p.set(set), fmt.Sprintf("x%04d", i))
		m.UID = types.UID(m.Name)
		must(p.T, p.r.client.Create(p.Context(), m))
	}
}

func (p *pool) set(name string) *v1alpha1.MachineSet {
	p.Helper()
	s := &v1alpha1.MachineSet{}
	must(p.T, p.r.client.Get(p.Context(), client.ObjectKey{Namespace: "ns", Name: name}, s))
	return s
}

// machines returns how many Machines a set has.
func (p *pool) machines(set string) int {
	p.Helper()
	owned, err := p.r.owned(p.Context(), p.set(set))
	must(p.T, err)
	return len(owned)
}

// reconcile reconciles a set a few times, as the work queue does.
func (p *pool) reconcile(set string) {
	p.Helper()
	for range 3 {
		_, err := p.r.Reconcile(p.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: set}})
		must(p.T, err)
	}
}

// marks returns the label of a set, and the status and reason of its condition.
func (p *pool) marks(set string) string {
	p.Helper()
	s := p.set(set)
	text := s.Labels[v1alpha1.LabelFreeze]
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionFrozen); c != nil {
		text += " " + string(c.Status) + " " + c.Reason
	}
	return text
}

func (p *pool) expect(marks string, machines int) {
	p.Helper()
	p.reconcile("set")
	if got, n := p.marks("set"), p.machines("set"); got != marks || n != machines {
		p.Errorf("the marks are %q, want %q; %d Machines, want %d", got, marks, n, machines)
	}
}

func (p *pool) edit(set, body string) {
	p.Helper()
	must(p.T, p.r.client.Patch(p.Context(), p.set(set), client.RawPatch(types.MergePatchType, []byte(body))))
}

// events returns the Events so far.
func (p *pool) events() string {
	recorder := p.r.events.(*events.FakeRecorder)
	var all []string
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return strings.Join(all, "\n")
}

const (
	overshoot = "True True OverShootingReplicaCount"
	free      = " False WithinReplicaCount"
)

func TestASetIsFrozenWhileItsDeploymentHasTooManyMachines(t *testing.T) {
	t.Run("a set creates what it lacks below size plus surge plus --safety-up, and shows nothing (MCM-70)", func(t *testing.T) {
		newPool(t, 4).expect("", 2)
	})
	t.Run("a set at the limit creates none, and shows it with label, condition, Event and metric (MCM-70, MCM-74)", func(t *testing.T) {
		p := newPool(t, 5)
		p.expect(overshoot, 1)
		if got := p.events(); strings.Count(got, "FrozeMachineSet") != 1 || !strings.Contains(got, "have 6 living Machines") {
			t.Errorf("the Events are %q", got)
		}
		if n := testutil.CollectAndCount(p.r.options.Frozen); n != 1 {
			t.Errorf("the metric has %d series", n)
		}
		if s := p.set("set"); s.Status.ErrorReason != nil {
			t.Errorf("the set has the error %s", *s.Status.ErrorReason)
		}
	})
	t.Run("a set that lacks nothing is not frozen, and deletes its surplus (MCM-76)", func(t *testing.T) {
		p := newPool(t, 5)
		p.reconcile("old")
		if got := p.marks("old"); got != "" {
			t.Errorf("the marks are %q", got)
		}
		for _, m := range []string{"x0000", "x0001", "x0002", "x0003", "x0004"} {
			var found v1alpha1.Machine
			must(t, p.r.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "old-" + m}, &found))
			if found.DeletionTimestamp == nil {
				return
			}
		}
		t.Error("the set has deleted the Machine that it keeps")
	})
	t.Run("a set is free as soon as enough Machines are being deleted, however long they drain (MCM-71, MCM-73)", func(t *testing.T) {
		p := newPool(t, 5)
		p.expect(overshoot, 1)
		p.events()
		p.reconcile("old")
		p.expect(free, 2)
		if got := p.events(); !strings.Contains(got, "UnfrozeMachineSet") {
			t.Errorf("the Events are %q", got)
		}
		if n := testutil.CollectAndCount(p.r.options.Frozen); n != 0 {
			t.Errorf("the metric has %d series", n)
		}
	})
	t.Run("a set of another deployment creates its Machines meanwhile (MCM-75)", func(t *testing.T) {
		p := newPool(t, 5)
		p.expect(overshoot, 1)
		other := p.set("set")
		other.Name, other.UID, other.ResourceVersion, other.OwnerReferences[0].UID, other.Labels = "other", "other", "", "other", nil
		must(t, p.r.client.Create(t.Context(), other))
		p.reconcile("other")
		if n := p.machines("other"); n != 2 {
			t.Errorf("it has %d Machines", n)
		}
	})
	t.Run("a set that listed Machines for removal counts without them (MCM-73)", func(t *testing.T) {
		p := newPool(t, 5)
		p.edit("old", `{"spec":{"removals":[{"name":"old-x0000","uid":"old-x0000"}]}}`)
		p.expect("", 2)
	})
	t.Run("a frozen set is set free by --safety-down Machines fewer than those that froze it (MCM-71)", func(t *testing.T) {
		p := newPool(t, 5)
		p.r = with(p.r, func(o *Options) { o.SafetyDown = 2 })
		p.expect(overshoot, 1)
		for _, tt := range []struct {
			removed, marks string
			machines       int
		}{{"x0000", overshoot, 1}, {"x0001", free, 2}} {
			p.remove("old-" + tt.removed)
			p.expect(tt.marks, tt.machines)
		}
	})
	t.Run("a set is not frozen with a negative --safety-up (MCM-70)", func(t *testing.T) {
		p := newPool(t, 50)
		p.r = with(p.r, func(o *Options) { o.SafetyUp = -1 })
		p.expect("", 2)
	})
	t.Run("the annotation lets a frozen set create once what it lacks, and goes (MCM-77)", func(t *testing.T) {
		for _, key := range []string{v1alpha1.AnnotationUnfreeze, v1alpha1.AnnotationUnfreezeMCM} {
			p := newPool(t, 5)
			p.expect(overshoot, 1)
			p.edit("set", fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, key))
			p.expect(free, 2)
			if _, there := p.set("set").Annotations[key]; there {
				t.Errorf("the annotation %s is still there", key)
			}
			var first v1alpha1.MachineList
			must(t, p.r.client.List(t.Context(), &first))
			for i := range first.Items { // The set lacks one again.
				if metav1.IsControlledBy(&first.Items[i], p.set("set")) {
					first.Items[i].Finalizers = nil
					must(t, p.r.client.Update(t.Context(), &first.Items[i]))
					must(t, p.r.client.Delete(t.Context(), &first.Items[i]))
					break
				}
			}
			p.expect(overshoot, 1)
		}
	})
	t.Run("the annotation stays while the set cannot create (MCM-77)", func(t *testing.T) {
		p := newPool(t, 5)
		p.expect(overshoot, 1)
		p.edit("set", fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, v1alpha1.AnnotationUnfreeze))
		p.r = assemble(p.r.options, refusing{p.r.client}, p.r.client, p.r.events)
		for range 3 {
			_, _ = p.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "set"}})
		}
		if _, there := p.set("set").Annotations[v1alpha1.AnnotationUnfreeze]; !there || p.marks("set") != overshoot {
			t.Errorf("the annotation exists: %v; the marks are %q", there, p.marks("set"))
		}
	})
	t.Run("a label that a person sets or removes is corrected (MCM-78)", func(t *testing.T) {
		p := newPool(t, 5)
		p.expect(overshoot, 1)
		p.edit("set", `{"metadata":{"labels":{"freeze":null}}}`)
		p.expect(overshoot, 1)
		p = newPool(t, 2)
		p.edit("set", `{"metadata":{"labels":{"freeze":"True"}}}`)
		p.expect("", 2)
	})
	t.Run("a condition of an earlier version ends when the set is not frozen (MCM-78)", func(t *testing.T) {
		p := newPool(t, 2)
		s := p.set("set")
		s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: rollout.ReasonOvershoot, LastTransitionTime: metav1.NewTime(start)}}
		must(t, p.r.client.Status().Update(t.Context(), s))
		p.expect(free, 2)
	})
}

// refusing is a client whose creates are refused.
type refusing struct{ client.Client }

func (refusing) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupName, Resource: "machines"}, o.GetName(), errors.New("a quota refuses"))
}

// fewer is a client that reads from the API server. It does not have some of the Machines that the cache shows.
type fewer struct {
	client.Client
	gone func(name string) bool
}

func (f fewer) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := f.Client.List(ctx, list, options...)
	if machines, ok := list.(*metav1.PartialObjectMetadataList); ok {
		machines.Items = slices.DeleteFunc(machines.Items, func(m metav1.PartialObjectMetadata) bool { return f.gone(m.Name) })
	}
	return err
}

func TestALateCacheFreezesNoSet(t *testing.T) {
	t.Run("a set whose cache still shows Machines that are gone is not shown as frozen, and creates what it lacks when the cache has caught up (MCM-71)", func(t *testing.T) {
		p := newPool(t, 5)
		gone := func(name string) bool { return strings.HasPrefix(name, "old-x") && name > "old-x0001" }
		p.r = assemble(p.r.options, p.r.client, fewer{p.r.client, gone}, p.r.events)
		p.expect("", 1)
		p.remove("old-x0002", "old-x0003", "old-x0004")
		p.expect("", 2)
		if got := p.events(); got != "" {
			t.Errorf("the Events are %q", got)
		}
	})
	t.Run("a set is frozen when the API server has more Machines than the cache, as when a program makes them faster than the watch shows them (MCM-70)", func(t *testing.T) {
		p := newPool(t, 7)
		hidden := blind{p.r.client, func(m *v1alpha1.Machine) bool { return m.Name == "old-x0006" }}
		p.r = assemble(p.r.options, hidden, p.r.client, p.r.events)
		p.expect(overshoot, 1)
	})
	t.Run("creations of another set count once, although that set has not been reconciled since (MCM-74)", func(t *testing.T) {
		p := newPool(t, 4)
		for i := range 4 {
			p.r.expected.expect(p.set("old"), fmt.Sprintf("old-x%04d", i), "")
		}
		p.expect("", 2)
	})
}

// blind is a cached client that does not show some of the Machines.
type blind struct {
	client.Client
	hidden func(m *v1alpha1.Machine) bool
}

func (b blind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := b.Client.List(ctx, list, options...)
	if machines, ok := list.(*v1alpha1.MachineList); ok {
		machines.Items = slices.DeleteFunc(machines.Items, func(m v1alpha1.Machine) bool { return b.hidden(&m) })
	}
	return err
}

// remove deletes Machines, and removes their finalizers.
func (p *pool) remove(names ...string) {
	p.Helper()
	for _, name := range names {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		must(p.T, p.r.client.Patch(p.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		must(p.T, p.r.client.Delete(p.Context(), m))
	}
}

func TestAFrozenSetIsReconciledAgain(t *testing.T) {
	t.Run("after the period of the flag, because the deletion of another set's Machine does not enqueue it (MCM-71)", func(t *testing.T) {
		p := newPool(t, 5)
		p.r = with(p.r, func(o *Options) { o.FreezePeriod = 7 * time.Second })
		p.expect(overshoot, 1)
		result, err := p.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "set"}})
		if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > 7*time.Second {
			t.Errorf("it is reconciled after %v, error %v", result.RequeueAfter, err)
		}
	})
}
