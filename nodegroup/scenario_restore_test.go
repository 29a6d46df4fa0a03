package nodegroup

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/pools"
)

// restores changes the objects of two node groups as people do who delete them without what they own, and make them again from a backup. The
// new objects have new UIDs, and may have references to owners that are gone, until the controllers adopt them.
type restores struct {
	hands
	pools []*pools.Pool
	// backup holds the deployments, sets and Machines as they were at first.
	backup []client.Object
	// seen is true while the watch has shown everything.
	seen   bool
	serial int
	// versions holds the last resource version of each deployment that was deleted, by its name.
	versions map[string]int
}

func (p *restores) ok(err error) {
	p.t.Helper()
	if client.IgnoreNotFound(err) != nil {
		p.fail("%v", err)
	}
}

// live returns an object as it is on the API server; nil when it does not exist.
func live[T client.Object](p *restores, o T) (now T, exists bool) {
	p.t.Helper()
	now = o.DeepCopyObject().(T)
	err := p.client.Get(p.t.Context(), client.ObjectKeyFromObject(o), now)
	p.ok(err)
	return now, err == nil
}

// dependents returns the objects of the backup that an object of the backup owns, as they are on the API server.
func (p *restores) dependents(owner client.Object) (all []client.Object) {
	for _, o := range p.backup {
		if !metav1.IsControlledBy(o, owner) {
			continue
		}
		if now, exists := live(p, o); exists {
			all = append(all, now)
		}
	}
	return all
}

// remove deletes an object at once, without its dependents. Sometimes these lose their references to it, as with orphan propagation.
func (p *restores) remove(o client.Object) {
	now, exists := live(p, o)
	if !exists {
		return
	}
	if p.IntN(2) == 0 {
		for _, d := range p.dependents(o) {
			p.patch(d, `{"metadata":{"ownerReferences":null}}`)
		}
	}
	p.patch(now, `{"metadata":{"finalizers":null}}`)
	p.versions[o.GetName()] = versionOf(now)
	p.did("delete %T %s", o, o.GetName())
	p.ok(p.client.Delete(p.t.Context(), now))
}

// restore makes an object again if it does not exist. Its references to owners are those of the backup, or none.
func (p *restores) restore(o client.Object) {
	if _, exists := live(p, o); exists {
		return
	}
	p.serial++
	again := o.DeepCopyObject().(client.Object)
	again.SetUID(types.UID(fmt.Sprintf("%s-restored-%d", o.GetUID(), p.serial)))
	again.SetResourceVersion("")
	again.SetCreationTimestamp(metav1.NewTime(p.clock.Now()))
	if p.IntN(2) == 0 {
		again.SetOwnerReferences(nil)
	}
	p.did("create %T %s with the UID %s and the owners %v", o, o.GetName(), again.GetUID(), again.GetOwnerReferences())
	p.ok(p.client.Create(p.t.Context(), again))
	// The fake client counts the versions of the new object from 1. An API server continues.
	for d, isDeployment := again.(*v1alpha1.MachineDeployment); isDeployment && versionOf(d) <= p.versions[d.Name]; {
		p.ok(p.client.Patch(p.t.Context(), d, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"version":"%d"}}}`, versionOf(d)))))
	}
}

func versionOf(o client.Object) int {
	n, _ := strconv.Atoi(o.GetResourceVersion())
	return n
}

// adopt makes the object that now has the name of the owner in the backup the owner of an object, as the controllers do.
func (p *restores) adopt(o client.Object) {
	now, exists := live(p, o)
	if !exists {
		return
	}
	for _, owner := range p.backup {
		if !metav1.IsControlledBy(o, owner) {
			continue
		}
		if current, there := live(p, owner); there {
			ref := metav1.GetControllerOf(o)
			p.patch(now, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]}}`, ref.APIVersion, ref.Kind, ref.Name, current.GetUID()))
		}
	}
}

// ownNode writes the Machine that now has the name of a Node into the Node, as the Machine controller does.
func (p *restores) ownNode(name string) {
	if m, exists := live(p, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: pools.Namespace, Name: name}}); exists {
		p.patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationOwnedBy, m.UID))
	}
}

// byHand makes one change. The watch delivers it, and drover reads it from the watch later.
func (p *restores) byHand() {
	p.seen = false
	defer p.watch()
	o := p.backup[p.IntN(len(p.backup))]
	if p.IntN(2) == 0 {
		o = p.backup[p.IntN(2*len(p.pools))] // a deployment or a set
	}
	switch p.IntN(8) {
	case 0:
		p.remove(o)
	case 1:
		p.remove(o)
		p.restore(o)
	case 2, 3:
		p.restore(o)
	case 4, 5:
		p.adopt(o)
	case 6:
		p.ownNode(p.known[p.IntN(len(p.known))].Name)
	default:
		m := p.known[p.IntN(len(p.known))].Name
		p.did("delete Machine %s", m)
		p.ok(p.client.Delete(p.t.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: pools.Namespace, Name: m}}))
	}
}

// owned returns the UIDs of the Machines that belong to a pool, by their names. Owner references alone decide.
func (p *restores) owned(pool *pools.Pool) map[string]types.UID {
	p.t.Helper()
	own := map[string]types.UID{}
	d, exists := live(p, pool.Deployment)
	if !exists {
		return own
	}
	var sets v1alpha1.MachineSetList
	var machines v1alpha1.MachineList
	p.ok(p.client.List(p.t.Context(), &sets))
	p.ok(p.client.List(p.t.Context(), &machines))
	for i := range sets.Items {
		for _, m := range machines.Items {
			if metav1.IsControlledBy(&sets.Items[i], d) && metav1.IsControlledBy(&m, &sets.Items[i]) {
				own[m.Name] = m.UID
			}
		}
	}
	return own
}

// call makes one call of the autoscaler about one of the groups. A group without an object does not grow, and once the watch has shown
// everything, a removal names a Machine of the group.
func (p *restores) call() {
	p.t.Helper()
	p.pool = p.pools[p.IntN(len(p.pools))]
	before, exists := live(p, p.pool.Deployment)
	if !exists {
		if err := p.groups.IncreaseSize(p.t.Context(), p.pool.ID(), 1); err == nil {
			p.fail("a group whose object is gone grows")
		}
		return
	}
	known := map[types.UID]bool{}
	for _, r := range before.Spec.Removals {
		known[r.UID] = true
	}
	own := p.owned(p.pool)
	p.hands.call()
	for _, r := range p.deployment(p.pool).Spec.Removals {
		if p.seen && !known[r.UID] && own[r.Name] != r.UID {
			p.fail("the removal of %s with the UID %s is asked for, and the Machines of the group are %v", r.Name, r.UID, own)
		}
	}
}

// agree checks the answers once the watch has shown everything.
func (p *restores) agree() {
	p.t.Helper()
	p.catchUp()
	p.seen = true
	if err := p.groups.Refresh(p.t.Context()); err != nil {
		p.fail("Refresh: %v", err)
	}
	var nodes corev1.NodeList
	p.ok(p.client.List(p.t.Context(), &nodes))
	groupOf := map[string]string{}
	for i := range nodes.Items {
		if g, found := p.groups.ForNode(pools.Asked(&nodes.Items[i])); found {
			groupOf[nodes.Items[i].Name] = g.ID
		}
	}
	counted := map[string]string{}
	for _, pool := range p.pools {
		p.agreeOn(pool, nodes.Items, groupOf, counted)
	}
}

// agreeOn checks that a group names only its own Machines, and that no Machine has two instances. groupOf holds the groups of the Nodes,
// counted the group in which each Machine has an instance.
func (p *restores) agreeOn(pool *pools.Pool, nodes []corev1.Node, groupOf, counted map[string]string) {
	p.t.Helper()
	d, exists := live(p, pool.Deployment)
	own := p.owned(pool)
	for name, id := range groupOf {
		if _, ours := own[name]; id == pool.ID() && !ours {
			p.fail("Node %s is in %s, whose Machines are %v", name, id, own)
		}
	}
	list, err := p.groups.Instances(pool.ID())
	if !exists {
		if err == nil {
			p.fail("%s has instances and no object", pool.ID())
		}
		return
	}
	if wrong := agreement(p.bench, pool, *d.Spec.Replicas); wrong != "" {
		p.fail("%s: %s", pool.ID(), wrong)
	}
	for _, i := range list {
		name, isMachine := strings.CutPrefix(i.ID, pools.MachineID(pool, ""))
		for _, n := range nodes {
			if n.Spec.ProviderID == i.ID {
				name, isMachine = n.Name, true
			}
		}
		if !isMachine {
			continue // a replica without a Machine
		}
		if _, ours := own[name]; !ours || counted[name] != "" {
			p.fail("%s has the instance %s of Machine %s, its Machines are %v, and the Machine is also counted in %q", pool.ID(), i.ID, name, own, counted[name])
		}
		counted[name] = pool.ID()
	}
	if n := len(own); len(list) < n {
		p.fail("%s has %d Machines and the instances %v", pool.ID(), n, list)
	}
}

// mend completes the restore, and checks that each group has its Machines and their Nodes again.
func (p *restores) mend() {
	p.t.Helper()
	for _, o := range p.backup {
		if now, exists := live(p, o); exists && now.GetDeletionTimestamp() != nil {
			p.remove(o)
		}
		p.restore(o)
	}
	for _, o := range p.backup {
		p.adopt(o)
	}
	for _, n := range p.known {
		p.ownNode(n.Name)
	}
	for _, pool := range p.pools {
		p.patch(pool.Deployment, fmt.Sprintf(`{"spec":{"replicas":%d,"removals":null}}`, len(p.owned(pool))))
	}
	p.agree()
	for _, n := range p.known {
		pool := p.pools[0]
		if !strings.HasPrefix(n.Name, pool.Deployment.Name+"-") {
			pool = p.pools[1]
		}
		now, _ := live(p, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}})
		if g, found := p.groups.ForNode(pools.Asked(now)); !found || g.ID != pool.ID() {
			p.fail("after the restore Node %s is in the group %q", n.Name, g.ID)
		}
	}
}

func inRestore(t *testing.T, seed uint64) {
	w := pools.NewWorld()
	p := &restores{hands: hands{Rand: rand.New(rand.NewPCG(seed, 4))}, pools: []*pools.Pool{w.Pool("a", 4, 1, 6), w.Pool("b", 2, 0, 6)}, versions: map[string]int{}}
	for _, pool := range p.pools {
		for i := range 3 {
			m, n := pool.Node(fmt.Sprintf("%s-%d", pool.Deployment.Name, i))
			if p.IntN(2) == 0 {
				n.Annotations = map[string]string{v1alpha1.AnnotationOwnedBy: string(m.UID)}
			}
			p.known = append(p.known, pools.Asked(n))
		}
		pool.Machine(pool.Deployment.Name + "-coming")
	}
	for _, o := range w.Objects() {
		if _, isNode := o.(*corev1.Node); !isNode {
			p.backup = append(p.backup, o.DeepCopyObject().(client.Object))
		}
	}
	p.bench = newBench(t, w)
	p.did("repeat this with -hand-worlds=1 -hand-seed=%d", seed)
	for range 50 {
		switch p.IntN(6) {
		case 0, 1, 2:
			p.byHand()
		case 3:
			p.agree()
		case 4:
			p.catchUp()
			p.seen = true
		default:
			p.call()
		}
	}
	p.mend()
}

func TestARestoreWithNewUIDs(t *testing.T) {
	t.Run("a group neither names a Machine that is not its own nor counts one twice, while deployments, sets and Machines are deleted without what they own and made again with new UIDs (F-162)", func(t *testing.T) {
		for world := range (uint64(*handWorlds) + 2) / 3 {
			inRestore(t, *handSeed+world)
		}
	})
}
