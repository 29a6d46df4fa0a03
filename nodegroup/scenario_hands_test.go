package nodegroup

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
	"github.com/drover-project/drover/test/sample"
)

var (
	handWorlds = flag.Int("hand-worlds", sample.Or(40, 1000), "how many groups people change by hand between the autoscaler's calls")
	handSeed   = flag.Uint64("hand-seed", 0, "the first of these groups; each group has the next seed")
)

// hands changes one node group as people and the autoscaler do, in turn.
type hands struct {
	*bench
	*rand.Rand
	pool *pools.Pool
	// known holds the nodes that the autoscaler has seen.
	known []membership.Node
	log   []string
}

func (p *hands) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(p.log, "\n"))
}

func (p *hands) did(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

func (p *hands) patch(o client.Object, body string) {
	p.t.Helper()
	p.did("%T %s: %s", o, o.GetName(), body)
	// Changes by hand do not count as writes of drover.
	before := p.patches.Load()
	if err := p.client.Patch(p.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner("kubectl")); client.IgnoreNotFound(err) != nil {
		p.fail("%v", err)
	}
	p.patches.Store(before)
}

func oneOf[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// byHand makes one change of a person.
func (p *hands) byHand() {
	d := p.deployment(p.pool)
	switch p.IntN(9) {
	case 0, 1:
		p.patch(d, fmt.Sprintf(`{"spec":{"replicas":%d}}`, p.IntN(9)))
	case 2:
		key := oneOf(p.Rand, v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI)
		p.patch(d, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, oneOf(p.Rand, "null", "null", `""`, `"false"`)))
	case 3:
		key := oneOf(p.Rand, v1alpha1.AnnotationsMinSize[0], v1alpha1.AnnotationsMaxSize[0])
		p.patch(d, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, oneOf(p.Rand, `"0"`, `"2"`, `"5"`, `"7"`, `"x"`, "null")))
	case 4:
		p.patch(d, fmt.Sprintf(`{"spec":{"paused":%v}}`, p.IntN(2) == 0))
	case 5:
		p.patch(&v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: pools.Namespace, Name: p.pool.Set.Name}}, fmt.Sprintf(`{"spec":{"replicas":%d}}`, p.IntN(9)))
	case 6:
		n := p.known[p.IntN(len(p.known))]
		p.patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, p.IntN(2) == 0))
	case 7:
		n := p.known[p.IntN(len(p.known))]
		key := oneOf(p.Rand, v1alpha1.AnnotationDeleteMachine, v1alpha1.AnnotationDeleteMachineCAPI, v1alpha1.AnnotationPaused)
		p.patch(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: pools.Namespace, Name: n.Name}}, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, oneOf(p.Rand, "null", `""`)))
	case 8:
		n := p.known[p.IntN(len(p.known))]
		kind := oneOf[client.Object](p.Rand, &corev1.Node{}, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: pools.Namespace}})
		kind.SetName(n.Name)
		p.did("delete %T %s", kind, n.Name)
		if err := p.client.Delete(p.t.Context(), kind); client.IgnoreNotFound(err) != nil {
			p.fail("%v", err)
		}
	}
}

// call makes one call of the autoscaler, and checks that it does no more than it asks for and nothing when it is refused.
func (p *hands) call() {
	p.t.Helper()
	before, writes := p.deployment(p.pool), p.patches.Load()
	var delta int32
	var named []membership.Node
	var what string
	var err error
	switch p.IntN(3) {
	case 0:
		delta = 1 + p.Int32N(3)
		what = fmt.Sprintf("IncreaseSize %d", delta)
		err = p.groups.IncreaseSize(p.t.Context(), p.pool.ID(), delta)
	case 1:
		delta = -1 - p.Int32N(2)
		what = fmt.Sprintf("DecreaseTargetSize %d", delta)
		err = p.groups.DecreaseTargetSize(p.t.Context(), p.pool.ID(), delta)
	default:
		for range 1 + p.IntN(2) {
			named = append(named, p.known[p.IntN(len(p.known))])
		}
		delta = -int32(len(named))
		what = fmt.Sprintf("DeleteNodes %v", named)
		err = p.groups.DeleteNodes(p.t.Context(), p.pool.ID(), named)
	}
	after := p.deployment(p.pool)
	p.did("%s: %v; the size was %d and is %d", what, err, *before.Spec.Replicas, *after.Spec.Replicas)
	if written := p.patches.Load() - writes; written > 2 { // One write, and one more when the watch was late.
		p.fail("there were %d writes", written)
	}
	p.compare(before, after, delta, err)
	for _, r := range after.Spec.Removals[len(before.Spec.Removals):] {
		// A Machine that never had a Node may go when the size is lowered.
		if !containsName(named, r.Name) && containsName(p.known, r.Name) {
			p.fail("%s is removed, and nobody asked for that", r.Name)
		}
	}
}

// compare checks that a call changes the size by what it asks for, within the bounds, and changes nothing when it is refused.
func (p *hands) compare(before, after *v1alpha1.MachineDeployment, delta int32, err error) {
	p.t.Helper()
	change := *after.Spec.Replicas - *before.Spec.Replicas
	bounds, invalid := v1alpha1.ParseBounds(before.Annotations)
	switch {
	case err != nil && (change != 0 || len(after.Spec.Removals) != len(before.Spec.Removals)):
		p.fail("the call was refused and changes the size by %d", change)
	case delta > 0 && change != delta && err == nil, delta < 0 && (change > 0 || change < delta):
		p.fail("the size changes by %d", change)
	case change > 0 && (invalid != nil || *after.Spec.Replicas > bounds.Max):
		p.fail("the size is above the maximum %d (%v)", bounds.Max, invalid)
	}
}

func containsName(nodes []membership.Node, name string) bool {
	for _, n := range nodes {
		if n.Name == name {
			return true
		}
	}
	return false
}

// agree checks that the answers follow the API server once the watch has shown everything, and that a group that is not served is refused
// with an error.
func (p *hands) agree() {
	p.t.Helper()
	p.catchUp()
	if err := p.groups.Refresh(p.t.Context()); err != nil {
		p.fail("Refresh: %v", err)
	}
	d := p.deployment(p.pool)
	listed := false
	for _, g := range p.groups.List() {
		listed = listed || g.ID == p.pool.ID()
	}
	bounds, invalid := v1alpha1.ParseBounds(d.Annotations)
	if want := invalid == nil && bounds.Listed && !v1alpha1.Paused(d.Annotations); listed != want {
		p.fail("the group is listed: %v, want %v", listed, want)
	}
	if !listed {
		if err := p.groups.IncreaseSize(p.t.Context(), p.pool.ID(), 1); err == nil {
			p.fail("a group that is not listed grows")
		}
		return
	}
	if wrong := agreement(p.bench, p.pool, *d.Spec.Replicas); wrong != "" {
		p.fail("%s", wrong)
	}
}

func inHands(t *testing.T, seed uint64) {
	w := pools.NewWorld()
	pool := w.Pool("a", 4, 1, 6)
	p := &hands{Rand: rand.New(rand.NewPCG(seed, 2)), pool: pool}
	for i := range 4 {
		_, n := pool.Node(fmt.Sprint("a-", i))
		p.known = append(p.known, pools.Asked(n))
	}
	p.bench = newBench(t, w)
	p.did("repeat this with -hand-worlds=1 -hand-seed=%d", seed)
	for range 40 {
		switch p.IntN(5) {
		case 0, 1:
			p.byHand()
		case 2:
			p.agree()
		case 3:
			p.catchUp()
		default:
			p.call()
		}
	}
	p.agree()
}

func TestRandomHandsBetweenTheAutoscalersCalls(t *testing.T) {
	t.Run("a call changes no more than it asks for and removes only what it names, a refused call changes nothing, and the answers follow what people have written (F-162, F-164)", func(t *testing.T) {
		for world := range uint64(*handWorlds) {
			inHands(t, *handSeed+world)
		}
	})
}
