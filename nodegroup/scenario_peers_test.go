package nodegroup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// six returns a group of six nodes. Three of the nodes are of an older template.
func six(t *testing.T) (*pools.World, *pools.Pool, []membership.Node) {
	t.Helper()
	w := pools.NewWorld()
	p := w.Pool("a", 6, 1, 10)
	var nodes []membership.Node
	for i := range 6 {
		if i == 3 {
			p.Set = p.Revision(2)
		}
		_, n := p.Node(fmt.Sprintf("a-%d", i))
		nodes = append(nodes, pools.Asked(n))
	}
	return w, p, nodes
}

func TestDeleteNodesRemovesTheNamedMachinesOnce(t *testing.T) {
	t.Run("calls to two replicas of drover for the same nodes lower the size in one write (MC-71, MCM-87, MCM-88, CAPI-6)", func(t *testing.T) {
		w, p, nodes := six(t)
		first, second := pair(t, w)
		named := []membership.Node{nodes[1], nodes[4], nodes[1]}
		var calls sync.WaitGroup
		for _, b := range []*bench{first, second, first, second} {
			calls.Go(func() { wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), named), "") })
		}
		calls.Wait()
		wantKind(t, first.groups.DeleteNodes(t.Context(), p.ID(), named), "")
		first.catchUp()
		first.expect(p, 4, "a-1", "a-4")
		after := first.deployment(p).ResourceVersion
		if before := p.Deployment.ResourceVersion; number(t, after)-number(t, before) != 1 {
			t.Errorf("the version was %s and is %s: it was not one write", before, after)
		}
	})
	t.Run("a call lowers the size only by the named Machines that are not in spec.removals yet (MCM-87)", func(t *testing.T) {
		w, p, nodes := six(t)
		p.Remove(machineNamed(p, "a-1"))
		p.Deployment.Spec.Replicas = ptr.To[int32](5)
		b := newBench(t, w)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), nodes[1:4]), "")
		b.expect(p, 3, "a-1", "a-2", "a-3")
		if b.patches.Load() != 1 {
			t.Errorf("%d writes", b.patches.Load())
		}
	})
	t.Run("no node is removed when a named node is of another group, of no group, or needed for the minimum (MC-71, MCM-89, CAPI-7)", func(t *testing.T) {
		w, p, nodes := six(t)
		other := w.Pool("b", 1, 0, 5)
		_, foreign := other.Node("b-1")
		b := newBench(t, w)
		for _, list := range [][]membership.Node{
			{nodes[0], pools.Asked(foreign)}, {nodes[0], {Name: "x", ProviderID: "aws:///i-1"}}, nodes,
		} {
			wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), list), model.FailedPrecondition)
		}
		b.expect(p, 6)
		if b.patches.Load() != 0 {
			t.Errorf("%d writes", b.patches.Load())
		}
	})
	t.Run("at the minimum size, a call for a failed Machine succeeds, but keeps the Machine because drover tries its creation again (MCM-89, CAPI-7)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 1, 5)
		p.Machine("a-1", pools.Failed(fault.CodeNoValidHost, "no host"))
		b := newBench(t, w)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-1"), "create-error")}), "")
		b.expect(p, 1)
	})
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDeleteNodesWritesSizeAndRemovalsTogether(t *testing.T) {
	type patch struct {
		Metadata struct{ ResourceVersion, UID string }
		Spec     struct {
			Replicas *int32
			Removals []v1alpha1.Removal
		}
	}
	t.Run("one write sets size and removals with the resourceVersion that was read, and a refused write changes nothing (CAPI-8)", func(t *testing.T) {
		w, p, nodes := six(t)
		b := newBench(t, w)
		var sent []patch
		writer := b.groups.writer.client
		b.groups.writer.client = spy{writer, func(raw []byte) {
			var got patch
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Error(err)
			}
			sent = append(sent, got)
		}}
		before := b.deployment(p)
		b.beforePatch = func(n int32) error {
			if n == 1 {
				return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("machinedeployments").GroupResource(), "a", nil)
			}
			return nil
		}
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), nodes[:2]), model.FailedPrecondition)
		b.expect(p, 6)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), nodes[:2]), "")
		b.expect(p, 4, "a-0", "a-1")
		for i, s := range sent {
			if s.Metadata.ResourceVersion != before.ResourceVersion || s.Metadata.UID != string(before.UID) || *s.Spec.Replicas != 4 || len(s.Spec.Removals) != 2 {
				t.Errorf("write %d is %+v", i, s)
			}
		}
	})
}

// spy is a client that passes the body of each patch to a function.
type spy struct {
	client.Client
	sees func(raw []byte)
}

func (s spy) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	raw, err := p.Data(o)
	if err != nil {
		return err
	}
	s.sees(raw)
	return s.Client.Patch(ctx, o, p, opts...)
}

func TestTwoReplicasOfDroverIncreaseAGroupAtTheSameTime(t *testing.T) {
	t.Run("each delta counts once, even when writes of both replicas and of a user conflict (CAPI-5, MCM-92)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 0, 0, 1000)
		first, second := pair(t, w)
		wantKind(t, second.groups.Refresh(t.Context()), "")
		var calls sync.WaitGroup
		for range 20 {
			for _, b := range []*bench{first, second} {
				calls.Go(func() { wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 3), "") })
			}
		}
		calls.Go(func() {
			for i := range 20 {
				d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: pools.Namespace, Name: "a"}}
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"turn":"%d"}}}`, i)
				if err := first.client.Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", patch)); err != nil {
					t.Error(err)
				}
			}
		})
		calls.Wait()
		first.catchUp()
		first.expect(p, 120)
	})
	t.Run("an increase beyond the maximum changes nothing, and the error names the current size, delta and maximum (CAPI-4)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 7, 0, 9)
		b := newBench(t, w)
		err := b.groups.IncreaseSize(t.Context(), p.ID(), 3)
		wantKind(t, err, model.FailedPrecondition)
		if err == nil || err.Error() != "increasing "+p.ID()+" by 3: its size is 7 and its maximum 9" {
			t.Errorf("the error is %v", err)
		}
		b.expect(p, 7)
	})
}

// TestTheStateOfAMachineThatTheAutoscalerSees follows a Machine from creation to deletion on one replica. A second replica, restarted at
// each step, must show the same.
func TestTheStateOfAMachineThatTheAutoscalerSees(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 1, 0, 5)
	b := newBench(t, w)
	m := p.Machine("a-1")
	w.Machines = nil
	id := pools.MachineID(p, "a-1")
	_, n := p.Node("a-1")
	quota := &model.InstanceError{Code: "QuotaExceeded", Message: "no cores", OutOfResources: true}
	bad := &model.InstanceError{Code: "ImageNotFound", Message: "no image"}
	for _, stage := range []struct {
		name   string
		change func(m *v1alpha1.Machine)
		node   bool
		want   model.Instance
	}{
		{"a new Machine is shown as Creating (MC-72, MCM-94, CAPI-10)", func(*v1alpha1.Machine) {}, false, model.Instance{ID: id, State: model.Creating}},
		{"a Machine that exceeds the quota is shown as Creating with an error (MC-72, MCM-94, CAPI-10)", pools.Failed(fault.CodeQuotaExceeded, "no cores"), false, model.Instance{ID: id, State: model.Creating, Error: quota}},
		{"a Machine with an invalid spec is shown as Creating with an error (MC-72, MCM-94, CAPI-10)", pools.Failed(fault.CodeImageNotFound, "no image"), false, model.Instance{ID: id, State: model.Creating, Error: bad}},
		{"a Machine with a server is shown as Creating (MC-72, MCM-94, CAPI-10)", pools.WithServer, false, model.Instance{ID: id, State: model.Creating}},
		{"a Machine whose node has registered is shown as Running (MC-72, MCM-94, CAPI-10)", pools.WithServer, true, model.Instance{ID: pools.ProviderID("a-1"), State: model.Running}},
		{"a Machine that is being deleted is shown as Deleting (MC-72, MCM-94, CAPI-10)", pools.Deleting, true, model.Instance{ID: pools.ProviderID("a-1"), State: model.Deleting}},
	} {
		t.Run(stage.name, func(t *testing.T) {
			next := m.DeepCopy()
			next.Status = v1alpha1.MachineStatus{}
			stage.change(next)
			events := []membership.Event{{Object: next}}
			if stage.node {
				events = append(events, membership.Event{Object: n})
			}
			anew := model.Empty(model.Rules{Discovery: b.options.Discovery}).Apply(slices.Concat([]membership.Event{{Object: p.Deployment}, {Object: p.Set}}, events), pools.Noon)
			for _, e := range events {
				b.groups.store.inbox.put(e)
			}
			wantKind(t, b.groups.store.renew(false), "")
			list, err := b.groups.Instances(p.ID())
			if diff := cmp.Diff(stage.want, list[0]); diff != "" || err != nil {
				t.Errorf("error %v, it is shown as (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(list, anew.Groups[p.ID()].Shown()); diff != "" {
				t.Errorf("a replica that has just started shows it otherwise:\n%s", diff)
			}
		})
	}
}

func TestGroupsWhoseNamesBeginWithTheSameText(t *testing.T) {
	w := pools.NewWorld()
	groups := map[string]*pools.Pool{}
	for _, name := range []string{"pool", "pool-1", "pool-1-a"} {
		groups[name] = w.Pool(name, 2, 0, 5)
		groups[name].Node(name + "-1-node")
		groups[name].Machine(name + "-1-late")
	}
	b := newBench(t, w)
	t.Run("nodes, placeholders, sizes and removals of such groups are not confused (MCM-95)", func(t *testing.T) {
		for name, p := range groups {
			for _, n := range []membership.Node{
				{Name: name + "-1-node"}, {ProviderID: pools.ProviderID(name + "-1-node")},
				pools.Fake(pools.MachineID(p, name+"-1-late"), "unregistered"), pools.Fake(pools.UnitID(p, 0, 7), "unregistered"),
				{Name: "template-node-for-x", ProviderID: p.ID() + "/template"},
			} {
				if g, ok := b.groups.ForNode(n); !ok || g.ID != p.ID() {
					t.Errorf("%s belongs to %q, want %s", n, g.ID, p.ID())
				}
			}
		}
		wantKind(t, b.groups.DeleteNodes(t.Context(), groups["pool"].ID(), []membership.Node{pools.Fake(pools.MachineID(groups["pool-1"], "pool-1-1-late"), "unregistered")}), model.FailedPrecondition)
		wantKind(t, b.groups.IncreaseSize(t.Context(), groups["pool-1"].ID(), 1), "")
		b.expect(groups["pool"], 2)
		b.expect(groups["pool-1"], 3)
		b.expect(groups["pool-1-a"], 2)
	})
	t.Run("an unknown node with a similar name has no group (MCM-95)", func(t *testing.T) {
		for _, n := range []membership.Node{{Name: "pool"}, {Name: "pool-1-node-x"}, {ProviderID: pools.ProviderID("pool")}, {Name: "MachineDeployment/kube-system/poo/machine/l-1-late"}} {
			if g, ok := b.groups.ForNode(n); ok {
				t.Errorf("%s belongs to %s", n, g.ID)
			}
		}
	})
}

func TestDeleteNodesAndIncreaseSizeOfOneGroup(t *testing.T) {
	t.Run("when IncreaseSize follows DeleteNodes, the named Machine is still removed, and a placeholder represents the added replica (MCM-97)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 0, 5)
		_, n := p.Node("a-1")
		p.Node("a-2")
		b := newBench(t, w)
		b.freeze()
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), "")
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		for range 2 {
			b.expect(p, 2, "a-1")
			list, err := b.groups.Instances(p.ID())
			want := []model.Instance{{ID: pools.ProviderID("a-1"), State: model.Deleting}, {ID: pools.ProviderID("a-2"), State: model.Running}, {ID: pools.UnitID(p, 0, 0), State: model.Creating}}
			if diff := cmp.Diff(want, list); diff != "" || err != nil {
				t.Errorf("error %v, the instances are (-want +got):\n%s", err, diff)
			}
			b.frozen = false
			b.catchUp()
		}
	})
}

func TestOptionsFromAnnotationsAndFromTheAutoscalersFlags(t *testing.T) {
	t.Run("readable annotations apply, and the autoscaler's flag applies instead of an unreadable annotation (MCM-99)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 1, 5)
		p.Deployment.Annotations[v1alpha1.AnnotationOptions+"scaledownunneededtime"] = "3m"
		p.Deployment.Annotations[v1alpha1.AnnotationOptions+"scaledownunreadytime"] = "soon"
		got, ok := newBench(t, w).groups.Settings(p.ID(), flags)
		if want := with(func(s *model.Settings) { s.UnneededTime = 3 * time.Minute }); !ok || got != want {
			t.Errorf("the options are %+v, want %+v", got, want)
		}
	})
	t.Run("an Event warns when the autoscaler's provision time is too short, and repeated removals of a late Machine lower the size once (MCM-100)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 0, 5)
		p.Node("a-1")
		late := p.Machine("a-2", pools.WithServer)
		b := newBench(t, w, Options{JoinTimeout: 10 * time.Minute})
		b.groups.Settings(p.ID(), with(func(s *model.Settings) { s.ProvisionTime = 5 * time.Minute }))
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); !strings.Contains(said, "waits 5m0s for a node") {
			t.Errorf("the Events are %q", said)
		}
		// drover gives up the server and replaces it, while the autoscaler takes its scale-up back and removes the Machine.
		going := late.DeepCopy()
		pools.Deleting(going)
		b.groups.store.inbox.put(membership.Event{Object: going})
		wantKind(t, b.groups.store.renew(false), "")
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -2), "")
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-2"), "unregistered")}), "")
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-2"), "unregistered")}), "")
		b.expect(p, 1, "a-2")
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-2"), "unregistered")}), "")
		b.expect(p, 2, "a-2")
	})
}
