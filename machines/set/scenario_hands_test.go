package set_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sample"
)

var (
	handWorlds = flag.Int("hand-worlds", sample.Or(5, 200), "how many worlds of bare sets people change by hand")
	handSeed   = flag.Uint64("hand-seed", 0, "the first of these worlds; each world has the next seed")
)

// In each world people make handEdits changes in each of handRounds rounds. After each round everything must be as it was asked for.
const handRounds, handEdits = 4, 15

// bareSets are the names of the sets that people change.
var bareSets = []string{"one", "two"}

// hands changes two bare sets and their Machines as people and their tools do, while the controller runs. It also does the work of the
// Machine controller. It counts what the changes allow the controller to do.
type hands struct {
	*handover
	*rand.Rand
	// creates and deletes hold, by set, how many Machines the set may still create, and how many it may still choose for deletion.
	creates, deletes map[string]int
	// asked holds the UIDs of the Machines whose deletion was asked for, and those of deleted sets.
	asked  map[types.UID]bool
	living map[types.UID]v1alpha1.Machine
	log    []string
}

// inHands runs one world.
func inHands(t *testing.T, seed uint64) {
	inHandover(t, "", func(h *handover) {
		p := &hands{handover: h, Rand: rand.New(rand.NewPCG(seed, 3)), asked: map[types.UID]bool{}}
		p.did("repeat this world with -hand-worlds=1 -hand-seed=%d", seed)
		p.creates, p.deletes = map[string]int{"one": 3, "two": 2}, map[string]int{}
		h.lead.Store(true)
		for _, name := range bareSets {
			p.ok(p.admin.Create(p.Context(), newSet(name, int32(p.creates[name]))))
		}
		p.pass(time.Minute)
		for range handRounds {
			p.round()
		}
	})
}

// round makes random changes, and checks that all that waits says so. Then it ends all pauses and mistakes, and checks that everything is as
// it was asked for.
func (p *hands) round() {
	for range handEdits {
		time.Sleep(time.Duration(p.IntN(2000)) * time.Millisecond)
		p.edit()
		time.Sleep(time.Duration(p.IntN(500)) * time.Millisecond)
		p.act()
		p.check()
	}
	p.pass(2 * time.Minute)
	for _, s := range p.sets() {
		p.saysSo(s)
	}
	p.mend()
	p.pass(3 * time.Minute)
	for _, s := range p.sets() {
		p.settled(s)
	}
	p.creates, p.deletes = map[string]int{}, map[string]int{}
}

func (p *hands) did(format string, args ...any) {
	p.log = append(p.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (p *hands) fail(format string, args ...any) {
	p.Helper()
	for _, s := range p.sets() {
		p.did("set %s: size %d, annotations %v, spec.removals %v, status %+v", s.Name, ptr.Deref(s.Spec.Replicas, -1), s.Annotations, s.Spec.Removals, s.Status)
	}
	for _, m := range p.machines() {
		p.did("Machine %s: deleted %v, owners %v, labels %v", m.Name, m.DeletionTimestamp, m.OwnerReferences, m.Labels)
	}
	p.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(p.log, "\n"))
}

// ok fails the test for any error, except that an object is gone.
func (p *hands) ok(err error) {
	p.Helper()
	if client.IgnoreNotFound(err) != nil {
		p.fail("%v", err)
	}
}

// sets returns the sets that exist.
func (p *hands) sets() (all []*v1alpha1.MachineSet) {
	for _, name := range bareSets {
		s := &v1alpha1.MachineSet{}
		if err := p.admin.Get(p.Context(), types.NamespacedName{Namespace: "default", Name: name}, s); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// machines returns the Machines that were made for the sets.
func (p *hands) machines() (all []v1alpha1.Machine) {
	var list v1alpha1.MachineList
	p.ok(p.admin.List(p.Context(), &list, client.InNamespace("default")))
	for _, m := range list.Items {
		if base := v1alpha1.BaseOf(m.Name); base == bareSets[0] || base == bareSets[1] {
			all = append(all, m)
		}
	}
	return all
}

// of returns the living Machines of a set.
func (p *hands) of(s *v1alpha1.MachineSet) (own []v1alpha1.Machine) {
	for _, m := range p.machines() {
		if m.DeletionTimestamp.IsZero() && metav1.IsControlledBy(&m, s) {
			own = append(own, m)
		}
	}
	return own
}

// act does the work of the Machine controller: it finishes deletions, and makes Machines Ready.
func (p *hands) act() {
	for _, m := range p.machines() {
		base, now := m.DeepCopy(), metav1.Now()
		switch {
		case !m.DeletionTimestamp.IsZero():
			m.Finalizers = nil
		case m.Status.NodeRef == nil:
			m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: m.Name}
			m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: &now}}
		default:
			continue
		}
		p.ok(p.admin.Patch(p.Context(), &m, client.MergeFrom(base)))
	}
}

// pass waits for some time, in which the Machines progress.
func (p *hands) pass(d time.Duration) {
	p.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(10*time.Second, time.Until(end)))
		p.act()
		p.check()
	}
}

// check compares what has become of the Machines with what the changes allow.
func (p *hands) check() {
	p.Helper()
	now := map[types.UID]v1alpha1.Machine{}
	for _, m := range p.machines() {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		now[m.UID] = m
		if _, known := p.living[m.UID]; !known {
			p.spend(p.creates, v1alpha1.BaseOf(m.Name), m.Name+" was created")
		}
	}
	for uid, m := range p.living {
		ref := metav1.GetControllerOf(&m)
		if _, lives := now[uid]; lives || p.asked[uid] || ref != nil && p.asked[ref.UID] {
			continue
		}
		of := v1alpha1.BaseOf(m.Name)
		if ref != nil {
			of = ref.Name
		}
		p.spend(p.deletes, of, m.Name+" was deleted")
	}
	p.living = now
}

// spend records that a set did what the changes allow it to do once less now.
func (p *hands) spend(allowed map[string]int, set, what string) {
	p.Helper()
	p.did("%s", what)
	if allowed[set]--; allowed[set] < 0 {
		p.fail("set %s: %s, and nobody asked for that", set, what)
	}
}

// saysSo checks that a set whose size differs from its Machines has a condition that explains why.
func (p *hands) saysSo(s *v1alpha1.MachineSet) {
	p.Helper()
	if v1alpha1.Paused(s.Annotations) || s.Spec.Replicas == nil {
		return
	}
	failure := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReplicaFailure)
	failed := failure != nil && failure.Status == metav1.ConditionTrue && failure.Message != ""
	if wrong := s.Spec.DeletePolicy == "Sometimes" || s.Spec.Template.Metadata.Labels["set"] != s.Name; wrong && !failed {
		p.fail("set %s has an invalid spec, and its conditions are %+v", s.Name, s.Status.Conditions)
	}
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAvailable)
	held := c != nil && strings.Contains(c.Message, "; ")
	if n := len(p.of(s)); n != int(*s.Spec.Replicas) && !failed && !held {
		p.fail("set %s has %d Machines and the size %d, and its conditions are %+v", s.Name, n, *s.Spec.Replicas, s.Status.Conditions)
	}
}

// mend ends all pauses, and corrects all mistakes.
func (p *hands) mend() {
	const nulls = `"metadata":{"annotations":{%q:null,%q:null,%q:null}}`
	for _, s := range p.sets() {
		p.patch(s, fmt.Sprintf(`{`+nulls+`,"spec":{"deletePolicy":null,"template":{"metadata":{"labels":{"set":%q}}}}}`,
			v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI, v1alpha1.AnnotationNoCreate, s.Name))
	}
	for _, m := range p.machines() {
		if m.DeletionTimestamp.IsZero() {
			p.label(&m, v1alpha1.BaseOf(m.Name))
		}
	}
}

// settled checks that a set has exactly the Machines that it should have, and that nothing waits any more.
func (p *hands) settled(s *v1alpha1.MachineSet) {
	p.Helper()
	n, st := int32(len(p.of(s))), s.Status
	if want := ptr.Deref(s.Spec.Replicas, -1); n != want || st.Replicas != n || st.AvailableReplicas != n || st.ObservedGeneration != s.Generation {
		p.fail("set %s has %d Machines and the size %d, and its status is %+v", s.Name, n, want, st)
	}
	if !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionAvailable) || !meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionReplicaFailure) {
		p.fail("set %s has all its Machines, and its conditions are %+v", s.Name, st.Conditions)
	}
	for _, m := range p.machines() {
		if metav1.GetControllerOf(&m) == nil && m.DeletionTimestamp.IsZero() {
			p.fail("%s has no owner", m.Name)
		}
	}
}

func TestRandomHandsOnBareSets(t *testing.T) {
	t.Run("a set creates and deletes no more Machines than people ask for, and says what it waits for, while they scale, edit, annotate, pause, relabel, disown, delete and restore (F-114, F-162)", func(t *testing.T) {
		for world := range uint64(*handWorlds) {
			inHands(t, *handSeed+world)
		}
	})
}

// gone reports whether an object no longer exists.
func (p *hands) gone(o client.Object) bool {
	return apierrors.IsNotFound(p.admin.Get(p.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)))
}
