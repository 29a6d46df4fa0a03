package deployment_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/classprotection"
	"github.com/drover-project/drover/test/sample"
)

var (
	handWorlds = flag.Int("hand-worlds", sample.Or(5, 200), "how many worlds people change by hand")
	handSeed   = flag.Uint64("hand-seed", 0, "the first of these worlds; each world has the next seed")
)

// handEdits is how many changes people make in one world.
const handEdits = 60

// hands changes objects of one namespace as people and their tools do, while the controllers run. It knows what they have asked for: how many
// Machines of the deployment and of the bare set, and which deletions.
type hands struct {
	*harness
	*rand.Rand
	// most is the largest number of Machines, with surge, that was asked for since the last check. lowered is by how much sizes were lowered,
	// minus the deletions for that.
	most, lowered map[string]int
	// asked holds the UIDs of the Machines whose deletion was asked for, and those of deleted owners.
	asked map[types.UID]bool
	// rolled is when the deployment's template last changed. version is its kubelet version.
	rolled  time.Time
	version string
	// class is the class of the deployment's template. forced names the classes whose finalizers somebody removed, there those that existed at
	// the last check.
	class         string
	forced, there map[string]bool
	living        map[types.UID]v1alpha1.Machine
	log           []string
}

const bareSet = "bare"

// inHands runs one world: a deployment, a bare set, and hands.
func inHands(t *testing.T, seed uint64) {
	inFlipOver(t, func(string) time.Duration { return 0 }, func(next http.RoundTripper) http.RoundTripper { return next }, func(h *harness) {
		s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: bareSet, Namespace: "default"}}
		s.Spec = v1alpha1.MachineSetSpec{Replicas: size(2), Selector: metav1.LabelSelector{MatchLabels: map[string]string{"group": bareSet}}, Template: group(bareSet, nil).Spec.Template}
		if err := h.client.Create(h.t.Context(), s); err != nil {
			h.t.Fatal(err)
		}
		time.Sleep(time.Minute)
		p := &hands{harness: h, Rand: rand.New(rand.NewPCG(seed, 1)), most: map[string]int{}, lowered: map[string]int{}, asked: map[types.UID]bool{}, version: "1.37.1",
			forced: map[string]bool{}, there: map[string]bool{}}
		p.did("repeat this world with -hand-worlds=1 -hand-seed=%d", seed)
		p.write()
		time.Sleep(2 * time.Minute)
		p.live()
	}, func(mgr ctrl.Manager) error {
		return classprotection.New(classprotection.Options{Control: mgr}).SetupWithManager(mgr)
	})
}

func (p *hands) must(err error) {
	p.t.Helper()
	if client.IgnoreNotFound(err) != nil {
		p.fail("%v", err)
	}
}

func (p *hands) fail(format string, args ...any) {
	p.t.Helper()
	sets, machines := p.objects()
	for _, s := range sets {
		p.did("set %s: size %d, annotations %v, owners %d, status %+v", s.Name, *s.Spec.Replicas, s.Annotations, len(s.OwnerReferences), s.Status)
	}
	for _, m := range machines {
		p.did("Machine %s: version %s, deleted %v, owners %v, labels %v", m.Name, m.Spec.Versions.Kubelet, m.DeletionTimestamp, m.OwnerReferences, m.Labels)
	}
	p.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(p.log, "\n"))
}

func (p *hands) did(format string, args ...any) {
	p.log = append(p.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// deployment returns the deployment; nil while there is none.
func (p *hands) deployment() *v1alpha1.MachineDeployment {
	d := &v1alpha1.MachineDeployment{}
	if err := p.client.Get(p.t.Context(), types.NamespacedName{Namespace: "default", Name: "flip"}, d); err != nil {
		p.must(err)
		return nil
	}
	return d
}

func (p *hands) objects() (sets []v1alpha1.MachineSet, machines []v1alpha1.Machine) {
	var ss v1alpha1.MachineSetList
	var ms v1alpha1.MachineList
	for _, l := range []client.ObjectList{&ss, &ms} {
		p.must(p.client.List(p.t.Context(), l, client.InNamespace("default")))
	}
	return ss.Items, ms.Items
}

// edit makes one random change.
func (p *hands) edit() {
	sets, machines := p.objects()
	switch what := p.IntN(13); {
	case what >= 10:
		p.editDocument()
	case what <= 2 && len(sets) > 0:
		p.ofSet(&sets[p.IntN(len(sets))])
	case what <= 5 && len(machines) > 0:
		p.ofMachine(&machines[p.IntN(len(machines))])
	default:
		p.ofDeployment()
	}
}

// patch changes an object by hand.
func (p *hands) patch(o client.Object, body string) {
	p.t.Helper()
	p.did("%T %s: %s", o, o.GetName(), body)
	p.must(p.client.Patch(p.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner(pick(p, "kubectl", "hpa", "argocd"))))
}

// annotate sets or removes one annotation, of people or of drover.
func (p *hands) annotate(o client.Object) {
	key := pick(p, v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI, v1alpha1.AnnotationDeleteMachine, v1alpha1.AnnotationDeleteMachineCAPI,
		v1alpha1.AnnotationPriority, v1alpha1.AnnotationNoCreate, v1alpha1.AnnotationRevision, v1alpha1.AnnotationDesiredReplicas,
		v1alpha1.AnnotationMaxReplicas, v1alpha1.AnnotationRolloutRecord, v1alpha1.AnnotationUnfreeze)
	p.patch(o, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, pick(p, "null", "null", `""`, `"true"`, `"1"`, `"7"`)))
}

func (p *hands) ofSet(s *v1alpha1.MachineSet) {
	switch p.IntN(7) {
	case 0, 1:
		p.annotate(s)
	case 6: // While the deployment is paused, nobody restores the record, and what comes next would look like the deployment's own.
		if d := p.deployment(); d != nil && !v1alpha1.Paused(d.Annotations) {
			p.patch(s, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationDecided, pick(p, "null", `""`, `"7"`)))
			time.Sleep(time.Second)
		}
	case 2:
		p.deleteSet(s)
	case 3: // of another template than the deployment's; the bare set's Machines have any
		p.patch(s, fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, pick(p, "1.36.0", "1.35.0")))
	default:
		n := p.Int32N(12)
		if metav1.GetControllerOf(s) == nil {
			n = min(n, 5)
			p.ask(s.Labels["group"], *s.Spec.Replicas, n, 0)
		}
		p.patch(s, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
	}
}

// ask records that a size changes.
func (p *hands) ask(group string, from, to int32, surge int) {
	if group == "" {
		group = bareSet
	}
	p.most[group] = max(p.most[group], int(to)+surge)
	p.lowered[group] += int(max(0, from-to))
}

// deleteSet deletes a set with its Machines. Machines that are orphaned on purpose stay, and the next set may have another name, so only
// restore does that.
func (p *hands) deleteSet(s *v1alpha1.MachineSet) {
	if s.Name == bareSet {
		return // it would not come back
	}
	policy := pick(p, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground)
	p.asked[s.UID] = true
	p.did("delete set %s %s", s.Name, policy)
	p.must(p.client.Delete(p.t.Context(), s, client.PropagationPolicy(policy)))
	time.Sleep(5 * time.Second)
}

func (p *hands) ofMachine(m *v1alpha1.Machine) {
	if p.IntN(2) == 0 {
		p.annotate(m)
		return
	}
	p.asked[m.UID] = true
	p.did("delete Machine %s", m.Name)
	p.must(p.client.Delete(p.t.Context(), m, client.PropagationPolicy(pick(p, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground))))
}

func (p *hands) ofDeployment() {
	d := p.deployment()
	if d == nil || !d.DeletionTimestamp.IsZero() {
		return
	}
	switch p.IntN(8) {
	case 0, 1:
		p.annotate(d)
	case 2:
		p.patch(d, fmt.Sprintf(`{"spec":{"paused":%v}}`, p.IntN(2) == 0))
	case 3:
		p.version, p.rolled = pick(p, "1.37.1", "1.37.2"), time.Now()
		p.patch(d, fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, p.version))
	case 4: // A set that loses a paused deployment obeys what people have written into it.
		if !v1alpha1.Paused(d.Annotations) {
			p.restore(d)
		}
	default:
		n := p.Int32N(6)
		p.ask("flip", *d.Spec.Replicas, n, 1)
		p.patch(d, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
	}
}

// restore deletes the deployment without its sets, sometimes the sets without their Machines, too, and creates them again with new UIDs.
func (p *hands) restore(d *v1alpha1.MachineDeployment) {
	orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
	time.Sleep(time.Second) // a set that loses its deployment obeys a size that has not been set back yet
	p.did("delete the deployment without its sets")
	p.must(p.client.Delete(p.t.Context(), d, orphan))
	time.Sleep(5 * time.Second)
	if p.IntN(2) == 0 {
		sets, _ := p.objects()
		for i := range sets {
			if s := &sets[i]; s.Name != bareSet && s.DeletionTimestamp.IsZero() {
				p.must(p.client.Delete(p.t.Context(), s, orphan))
				time.Sleep(5 * time.Second)
				p.did("restore the set %s", s.Name)
				again := fresh(s)
				delete(again.Annotations, v1alpha1.AnnotationPaused) // a paused set would not take its Machines back
				delete(again.Annotations, v1alpha1.AnnotationPausedCAPI)
				p.must(p.client.Create(p.t.Context(), again))
			}
		}
	}
	p.did("restore the deployment")
	p.must(p.client.Create(p.t.Context(), fresh(d)))
	clear(p.there) // a class that is being deleted may have lost its last user meanwhile
	time.Sleep(5 * time.Second)
}

// fresh returns an object without what an API server sets.
func fresh[T client.Object](o T) T {
	o = o.DeepCopyObject().(T)
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
	o.SetManagedFields(nil)
	return o
}

// check compares the Machines with what was asked for.
func (p *hands) check() {
	p.t.Helper()
	_, machines := p.objects()
	now, count := map[types.UID]v1alpha1.Machine{}, map[string]int{}
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			now[m.UID] = m
			count[m.Labels["group"]]++
		}
	}
	for uid, m := range p.living {
		if _, lives := now[uid]; !lives {
			p.deleted(&m)
		}
	}
	p.living = now
	for group, n := range count {
		if n > p.most[group] {
			p.fail("%s has %d living Machines, and at most %d were asked for", group, n, p.most[group])
		}
	}
	p.checkClasses()
}

// deleted checks that somebody asked for the deletion of a Machine: by name, with its owner, by a smaller size, or by another template.
func (p *hands) deleted(m *v1alpha1.Machine) {
	p.t.Helper()
	group := m.Labels["group"]
	p.did("%s is deleted", m.Name)
	ref := metav1.GetControllerOf(m)
	switch {
	case p.asked[m.UID], ref != nil && p.asked[ref.UID]:
	case group == "flip" && (m.Spec.Versions.Kubelet != p.version || classOf(&m.Spec) != p.class || time.Since(p.rolled) < time.Minute):
	case p.lowered[group] > 0:
		p.lowered[group]--
	default:
		p.fail("%s was deleted, and nobody asked for that", m.Name)
	}
}

// saysSo checks that each set whose size differs from its Machines with a Node has a condition that explains why, as has each Machine without
// a Node.
func (p *hands) saysSo() {
	p.t.Helper()
	sets, machines := p.objects()
	for i := range machines {
		p.machineSaysSo(&machines[i])
	}
	for i := range sets {
		s := &sets[i]
		var living, nodes int32
		for j := range machines {
			if m := &machines[j]; metav1.IsControlledBy(m, s) && m.DeletionTimestamp.IsZero() {
				living++
				if m.Status.NodeRef != nil {
					nodes++
				}
			}
		}
		if !s.DeletionTimestamp.IsZero() || living == *s.Spec.Replicas && nodes == living || v1alpha1.Paused(s.Annotations) {
			continue
		}
		if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAvailable); c == nil || !strings.Contains(c.Message, "; ") {
			p.fail("set %s has %d Machines and the size %d, and its condition is %+v", s.Name, living, *s.Spec.Replicas, c)
		}
	}
}

// live makes random changes, ends all pauses, and checks that everything is then as it was asked for.
func (p *hands) live() {
	p.most["flip"], p.most[bareSet] = 4, 2
	for range handEdits {
		time.Sleep(time.Duration(p.IntN(2000)) * time.Millisecond)
		p.edit()
		time.Sleep(time.Duration(p.IntN(500)) * time.Millisecond)
		p.check()
	}
	time.Sleep(2 * time.Minute)
	p.check()
	p.saysSo()
	p.mendDocuments()
	unpaused := fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI)
	sets, machines := p.objects()
	for i := range sets {
		p.patch(&sets[i], unpaused)
	}
	for i := range machines {
		p.patch(&machines[i], unpaused)
	}
	d := p.deployment()
	p.patch(d, unpaused)
	p.patch(d, `{"spec":{"paused":false}}`)
	time.Sleep(10 * time.Minute)
	p.check()
	d = p.deployment()
	st := d.Status
	if all, current, n := len(p.machines("flip")), len(p.ofKubelet(p.version)), int(*d.Spec.Replicas); all != n || current != n || int(st.AvailableReplicas) != n {
		p.fail("there are %d Machines, %d of the version %s, want %d; the status is %+v", all, current, p.version, n, st)
	}
}

func TestRandomHands(t *testing.T) {
	t.Run("nothing is deleted and made that nobody asked for, and what waits says so, while people scale, edit, annotate, pause, delete and restore each kind, Clusters and MachineClasses too (F-161, F-162, F-164, MCM-5)", func(t *testing.T) {
		for world := range uint64(*handWorlds) {
			inHands(t, *handSeed+world)
		}
	})
}
