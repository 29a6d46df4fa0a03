package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// churn is a small cluster in which random events happen in random order.
type churn struct {
	*rapid.T
	serial  int
	objects map[string]client.Object
	now     time.Time
}

// id draws one of three names, so that random objects often refer to each other.
func (c *churn) id(what string) string {
	return what + rapid.SampledFrom([]string{"1", "2", "3"}).Draw(c.T, what)
}

func (c *churn) odds(n int, what string) bool { return rapid.IntRange(1, n).Draw(c.T, what) == 1 }

func (c *churn) meta(name string, old client.Object) metav1.ObjectMeta {
	c.serial++
	uid := types.UID(fmt.Sprintf("%s-%d", name, c.serial))
	if old != nil && !c.odds(6, "re-created") {
		uid = old.GetUID()
	}
	return metav1.ObjectMeta{Namespace: pools.Namespace, Name: name, UID: uid, ResourceVersion: fmt.Sprint(c.serial), CreationTimestamp: metav1.NewTime(pools.Noon)}
}

// event draws one random event.
func (c *churn) event() membership.Event {
	var made client.Object
	switch rapid.SampledFrom([]string{"deployment", "set", "machine", "machine", "node", "node"}).Draw(c.T, "kind") {
	case "deployment":
		made = c.deployment(c.id("d"))
	case "set":
		made = c.set(c.id("s"))
	case "machine":
		made = c.machine(c.id("m"))
	default:
		made = c.node(c.id("m"))
	}
	key := fmt.Sprintf("%T/%s", made, made.GetName())
	if old := c.objects[key]; old != nil && c.odds(3, "gone") {
		delete(c.objects, key)
		return membership.Event{Object: old, Gone: true}
	}
	c.objects[key] = made
	return membership.Event{Object: made}
}

func (c *churn) deployment(name string) client.Object {
	d := &v1alpha1.MachineDeployment{ObjectMeta: c.meta(name, c.objects["*v1alpha1.MachineDeployment/"+name])}
	d.Annotations = map[string]string{v1alpha1.AnnotationsMaxSize[0]: "5", v1alpha1.AnnotationsMinSize[0]: "0"}
	if c.odds(2, "has an option") {
		d.Annotations[v1alpha1.AnnotationOptions+"scaledownunneededtime"] = "3m"
	}
	d.Spec.Replicas = ptr.To(rapid.Int32Range(0, 4).Draw(c.T, "replicas"))
	for _, o := range c.objects {
		if m, ok := o.(*v1alpha1.Machine); ok && c.odds(4, "listed") {
			d.Spec.Removals = append(d.Spec.Removals, v1alpha1.Removal{Name: m.Name, UID: m.UID})
		}
	}
	slices.SortFunc(d.Spec.Removals, func(a, b v1alpha1.Removal) int { return strings.Compare(a.Name, b.Name) })
	if c.odds(3, "short") {
		d.Status.Backoffs = []v1alpha1.GroupBackoff{{Class: string(fault.Quota), Code: string(fault.CodeQuotaExceeded), Until: metav1.NewTime(c.now.Add(time.Minute)), Step: 1}}
	}
	return d
}

func (c *churn) set(name string) client.Object {
	s := &v1alpha1.MachineSet{ObjectMeta: c.meta(name, c.objects["*v1alpha1.MachineSet/"+name])}
	s.Annotations = map[string]string{v1alpha1.AnnotationRevision: name[1:], v1alpha1.AnnotationsMaxSize[0]: "3"}
	s.Spec.Replicas = ptr.To[int32](2)
	if o := c.objects["*v1alpha1.MachineDeployment/"+c.id("d")]; o != nil && !c.odds(4, "bare") {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, v1alpha1.MachineDeploymentKind)}
	}
	return s
}

func (c *churn) machine(name string) client.Object {
	m := &v1alpha1.Machine{ObjectMeta: c.meta(name, c.objects["*v1alpha1.Machine/"+name])}
	if o := c.objects["*v1alpha1.MachineSet/"+c.id("s")]; o != nil {
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, v1alpha1.MachineSetKind)}
	}
	if c.odds(2, "has a server") {
		m.Spec.ProviderID = ptr.To(pools.ProviderID(c.id("server")))
	}
	if c.odds(3, "names a node") {
		m.Status.NodeRef = &corev1.ObjectReference{Name: c.id("m")}
	}
	if c.odds(4, "deleting") {
		m.DeletionTimestamp = ptr.To(metav1.NewTime(pools.Noon))
	}
	if c.odds(4, "failed") {
		m.Status.ErrorReason = ptr.To(string(rapid.SampledFrom([]fault.Code{fault.CodeNoValidHost, fault.CodeServerError}).Draw(c.T, "code")))
	}
	if c.odds(2, "has a phase") {
		phases := []v1alpha1.MachinePhase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseJoined, v1alpha1.PhaseRunning}
		m.Status.Phase = ptr.To(rapid.SampledFrom(phases).Draw(c.T, "phase"))
	}
	if c.odds(4, "has another name for its node") {
		m.Spec.Metadata.Name = c.id("m")
	}
	return m
}

func (c *churn) node(name string) client.Object {
	n := &corev1.Node{ObjectMeta: c.meta(name, c.objects["*v1.Node/"+name])}
	n.Namespace = ""
	if c.odds(2, "has a provider ID") {
		n.Spec.ProviderID = pools.ProviderID(c.id("server"))
	}
	if m := c.objects["*v1alpha1.Machine/"+c.id("m")]; m != nil && c.odds(3, "is marked") {
		n.Labels = map[string]string{v1alpha1.LabelOwnedBy: string(m.GetUID())}
	}
	if c.odds(5, "names its machine") {
		n.Annotations = map[string]string{v1alpha1.AnnotationNodeMachine: pools.Namespace + "/" + c.id("m")}
	}
	return n
}

// picture returns everything that a snapshot answers about groups, instances and nodes, as text.
func (c *churn) picture(s *Snapshot) map[string]string {
	out := map[string]string{}
	for id, g := range s.Groups {
		errors := ""
		for _, i := range g.instances {
			errors += fmt.Sprintf(" %s=%s", i.ID, i.State)
			if i.Error != nil {
				errors += "!" + i.Error.Code
			}
		}
		out[id] = fmt.Sprint(g.Target, g.Min, g.Max, g.Refusal, g.Rolling, g.Gap, g.Awaited, g.debug, g.recheck.Unix(), errors)
	}
	for _, name := range []string{"m1", "m2", "m3", "x"} {
		for _, provider := range []string{"", pools.ProviderID("server1"), pools.ProviderID("server2"), "openstack://region/" + strings.ToUpper(pools.ServerOf("server3")), "other:///server1"} {
			owner := "none"
			if g := s.groupOf(membership.Node{Name: name, ProviderID: provider}); g != nil {
				owner = g.ID
			}
			out[name+" "+provider] = owner
		}
	}
	for id, group := range s.shown.All {
		out["shown "+id] = group
	}
	return out
}

func (c *churn) everything(d Discovery) *Snapshot {
	var events []membership.Event
	keys := slices.Collect(maps.Keys(c.objects))
	for _, key := range rapid.Permutation(slices.Sorted(slices.Values(keys))).Draw(c.T, "order") {
		events = append(events, membership.Event{Object: c.objects[key]})
	}
	return Empty(Rules{Discovery: d}).Apply(events, c.now)
}

// TestASnapshotDoesNotDependOnTheOrderOfEvents checks that updating a snapshot event by event has the same result as building a
// snapshot from all objects at once.
func TestASnapshotDoesNotDependOnTheOrderOfEvents(t *testing.T) {
	t.Run("a snapshot that is updated event by event equals a snapshot that is built from all objects at once (CA-C115)", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			c := &churn{T: r, objects: map[string]client.Object{}, now: pools.Noon}
			discovery := Discovery{Cloud: pools.OpenStack, BareSets: rapid.Bool().Draw(r, "bare sets")}
			s := Empty(Rules{Discovery: discovery})
			// Only runs in which the clock never goes back compare both snapshots. When the clock has gone back, the snapshot
			// that is updated keeps the answers for the later time, and the snapshot that is built from all objects has those
			// for the earlier time.
			earliest := rapid.IntRange(-1, 0).Draw(r, "the clock may go back by")
			for range rapid.IntRange(1, 30).Draw(r, "rounds") {
				var events []membership.Event
				for range rapid.IntRange(0, 3).Draw(r, "events") {
					events = append(events, c.event())
				}
				c.now = c.now.Add(time.Duration(rapid.IntRange(earliest, 4).Draw(r, "minutes")) * time.Minute)
				before := c.picture(s)
				next := s.Apply(events, c.now)
				if diff := cmp.Diff(before, c.picture(s)); diff != "" {
					r.Fatalf("a snapshot has changed (-before +after):\n%s", diff)
				}
				if err := soundness(next); err != nil {
					r.Fatalf("CA-C115 %v", err)
				}
				s = next
				if earliest < 0 {
					continue
				}
				if diff := cmp.Diff(c.picture(c.everything(discovery)), c.picture(s)); diff != "" {
					r.Fatalf("one by one is not what it is all at once (-at once +one by one):\n%s", diff)
				}
			}
		})
	})
}

func TestTwoNodesWithTheSameProviderID(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 5)
	first, node := p.Node("a-1")
	second, twin := p.Node("a-2")
	first.Spec.ProviderID, second.Spec.ProviderID = nil, nil
	twin.Spec.ProviderID = node.Spec.ProviderID
	s := snapshotOf(t, w)
	if got := s.Groups[p.ID()].instances; got[0].ID != node.Spec.ProviderID || got[1].ID != pools.MachineID(p, "a-2") {
		t.Errorf("CA-C40 the instances are %v", got)
	}
	t.Run("the provider ID is listed for the second node's Machine once the first node's Machine is deleted", func(t *testing.T) {
		s := s.Apply([]membership.Event{{Object: first, Gone: true}}, pools.Noon)
		if got := s.Groups[p.ID()].instances; got[0].ID != node.Spec.ProviderID || s.flaw != nil {
			t.Errorf("the instances are %v, %v", got, s.flaw)
		}
	})
}

func TestBrokenInvariantsOfASnapshotAreFound(t *testing.T) {
	instance := func(id string, state State, e *InstanceError) Instance {
		return Instance{ID: id, State: state, Error: e}
	}
	for _, tc := range []struct {
		name   string
		groups map[string]*Group
	}{
		{"a group with fewer instances than its target size is a broken invariant (CA-C38)", map[string]*Group{"a": {ID: "a", Target: 1}}},
		{"an instance ID in two groups is a broken invariant (CA-C40)", map[string]*Group{
			"a": {ID: "a", Target: 1, instances: []Instance{instance("i", Running, nil)}},
			"b": {ID: "b", Target: 1, instances: []Instance{instance("i", Running, nil)}},
		}},
		{"a Running instance with an error is a broken invariant (CA-C50)", map[string]*Group{
			"a": {ID: "a", Target: 1, instances: []Instance{instance("i", Running, &InstanceError{Code: "x"})}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := soundness(&Snapshot{Groups: tc.groups}); err == nil {
				t.Error("it is taken for sound")
			}
		})
	}
}

// TestEverySnapshotKeepsTheInvariants builds snapshots of random clusters: sets, Machines and Nodes may be missing, duplicated,
// being deleted or listed for removal, and the events are out of order.
func TestEverySnapshotKeepsTheInvariants(t *testing.T) {
	t.Run("a snapshot breaks no invariant when objects are missing, duplicated or late (CA-C30, CA-C38, CA-C115)", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			w := pools.NewWorld()
			var all []*pools.Pool
			for i := range rapid.IntRange(1, 3).Draw(r, "pools") {
				p := w.Pool(string(rune('a'+i)), rapid.Int32Range(0, 6).Draw(r, "replicas"), 0, rapid.Int32Range(0, 6).Draw(r, "max"))
				all = append(all, p)
				randomMachines(r, p)
			}
			if rapid.Bool().Draw(r, "a set is not seen yet") {
				w.Sets = w.Sets[1:]
			}
			if len(w.Nodes) > 0 && rapid.Bool().Draw(r, "a node is doubled") {
				twin := w.Nodes[0].DeepCopy()
				twin.Name += "-twin"
				w.Nodes = append(w.Nodes, twin)
			}
			s := build(w, Discovery{})
			if err := soundness(s); err != nil {
				r.Fatalf("CA-C115 %v", err)
			}
			v := NewView(s, pools.Noon, nil)
			for _, n := range w.Nodes {
				if g := s.groupOf(pools.Asked(n)); g != nil && s.Groups[g.ID] == nil {
					r.Fatalf("CA-C30 node %s belongs to %s, which does not exist", n.Name, g.ID)
				}
			}
			for _, p := range all {
				if e := v.ByID[p.ID()]; e != nil && e.Target != *p.Deployment.Spec.Replicas {
					r.Fatalf("CA-C38 group %s has target %d, replicas are %d", e.ID, e.Target, *p.Deployment.Spec.Replicas)
				}
			}
		})
	})
}

func randomMachines(r *rapid.T, p *pools.Pool) {
	for i := range rapid.IntRange(0, 6).Draw(r, "machines") {
		name := p.Deployment.Name + "-" + string(rune('0'+i))
		var change []func(*v1alpha1.Machine)
		if rapid.Bool().Draw(r, "deleting") {
			change = append(change, pools.Deleting)
		}
		if rapid.Bool().Draw(r, "failed") {
			change = append(change, pools.Failed(fault.CodeNoValidHost, "no host"))
		}
		var m *v1alpha1.Machine
		if rapid.Bool().Draw(r, "registered") {
			m, _ = p.Node(name, change...)
			if rapid.Bool().Draw(r, "same server as another") {
				p.World.Nodes[len(p.World.Nodes)-1].Spec.ProviderID = pools.ProviderID(p.Deployment.Name + "-0")
			}
		} else {
			m = p.Machine(name, change...)
		}
		if rapid.Bool().Draw(r, "listed") {
			p.Remove(m)
		}
		if rapid.IntRange(0, 3).Draw(r, "template changes") == 0 {
			p.Set = p.Revision(i + 2)
		}
	}
}

func TestTheInstancesThatOneVersionOfAGroupHasAndAnotherLacks(t *testing.T) {
	version := func(machines ...string) *Group {
		g := &Group{}
		for _, name := range machines {
			namespace, name, _ := strings.Cut(name, "/")
			m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
			g.Members = append(g.Members, &membership.Member{Machine: m})
			g.instances = append(g.instances, Instance{ID: "placeholder/" + name})
		}
		return g
	}
	for _, tt := range []struct {
		name        string
		has, others *Group
		want        []string
	}{
		{"all of them when there is no other version", version("x/a", "x/b"), nil, []string{"placeholder/a", "placeholder/b"}},
		{"none when both versions have the same Machines", version("x/a", "x/b"), version("x/a", "x/b"), nil},
		{"that of a Machine which the other version lacks", version("x/a", "x/b", "x/c"), version("x/a", "x/c"), []string{"placeholder/b"}},
		{"that of a Machine whose name another namespace also has", version("x/a", "y/a"), version("x/a"), []string{"placeholder/a"}},
		{"none when the Machine of the other namespace goes", version("y/a"), version("x/a", "y/a"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.has.without(tt.others); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
