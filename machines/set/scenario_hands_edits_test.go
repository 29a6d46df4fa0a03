package set_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func oneOf[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// edit makes one random change.
func (p *hands) edit() {
	p.Helper()
	sets, machines := p.sets(), p.machines()
	if len(machines) == 0 || p.IntN(2) == 0 {
		p.ofSet(sets[p.IntN(len(sets))])
		return
	}
	if m := &machines[p.IntN(len(machines))]; m.DeletionTimestamp.IsZero() {
		p.ofMachine(m)
	}
}

func (p *hands) patch(o client.Object, body string) {
	p.Helper()
	p.did("%T %s: %s", o, o.GetName(), body)
	p.ok(p.admin.Patch(p.Context(), o, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner("kubectl")))
}

// annotate sets or removes an annotation.
func (p *hands) annotate(o client.Object, keys ...string) {
	p.patch(o, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, oneOf(p.Rand, keys...), oneOf(p.Rand, "null", "null", `""`, `"true"`, `"1"`)))
}

func (p *hands) ofSet(s *v1alpha1.MachineSet) {
	switch p.IntN(9) {
	case 0, 1, 2:
		p.scale(s, p.Int32N(6))
	case 3:
		p.annotate(s, v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI, v1alpha1.AnnotationNoCreate)
	case 4: // The second template does not match the selector.
		p.patch(s, oneOf(p.Rand, `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.1"}}}}}`, `{"spec":{"template":{"metadata":{"labels":{"set":null}}}}}`,
			fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{"set":%q}}}}}`, s.Name)))
	case 5:
		p.patch(s, fmt.Sprintf(`{"spec":{"deletePolicy":%q}}`, oneOf(p.Rand, "Random", "Newest", "Oldest", "Sometimes")))
	case 6: // A set that was never reconciled gets the size 1 when it has none.
		if s.Status.ObservedGeneration != 0 {
			p.patch(s, `{"spec":{"replicas":null}}`)
		}
	case 7:
		p.name(s)
	default:
		p.restore(s)
	}
}

// scale changes the size of a set.
func (p *hands) scale(s *v1alpha1.MachineSet, n int32) {
	p.creates[s.Name] += int(max(0, n-ptr.Deref(s.Spec.Replicas, 0)))
	p.deletes[s.Name] += int(max(0, ptr.Deref(s.Spec.Replicas, 10)-n))
	p.patch(s, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

// name names a Machine of a set for removal as the autoscaler does, or removes the list of such names.
func (p *hands) name(s *v1alpha1.MachineSet) {
	own := p.of(s)
	if len(own) == 0 || p.IntN(4) == 0 {
		p.patch(s, `{"spec":{"removals":null}}`)
		return
	}
	m := own[p.IntN(len(own))]
	list, err := json.Marshal(append(s.Spec.Removals, v1alpha1.Removal{Name: m.Name, UID: m.UID, Time: metav1.Now()}))
	p.ok(err)
	p.asked[m.UID] = true
	if n := ptr.Deref(s.Spec.Replicas, 0); n > 0 && p.IntN(3) > 0 {
		p.patch(s, fmt.Sprintf(`{"spec":{"replicas":%d,"removals":%s}}`, n-1, list))
		return
	}
	p.creates[s.Name]++
	p.patch(s, fmt.Sprintf(`{"spec":{"removals":%s}}`, list))
}

// restore deletes a set with each propagation, and creates it again with a new UID. Machines that stay belong to the new set, which creates
// only those that are missing.
func (p *hands) restore(s *v1alpha1.MachineSet) {
	policy := oneOf(p.Rand, "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)
	p.pass(time.Second)
	again, own := s.DeepCopy(), p.of(s)
	if again.Spec.Replicas == nil {
		again.Spec.Replicas = ptr.To(int32(len(own)))
	}
	missing := int(*again.Spec.Replicas)
	p.asked[s.UID] = policy != metav1.DeletePropagationOrphan
	for _, m := range own {
		if !p.asked[s.UID] && m.Labels["set"] == s.Name && v1alpha1.BaseOf(m.Name) == s.Name {
			missing--
		}
	}
	p.did("delete set %s %q, and create it again with the size %d", s.Name, policy, *again.Spec.Replicas)
	var options []client.DeleteOption
	if policy != "" {
		options = append(options, client.PropagationPolicy(policy))
	}
	p.ok(p.admin.Delete(p.Context(), s, options...))
	for tries := 0; !p.gone(s); tries++ {
		if tries == 60 {
			p.fail("set %s is still there", s.Name)
		}
		p.pass(time.Second)
	}
	time.Sleep(time.Duration(p.IntN(3000)) * time.Millisecond)
	p.creates[s.Name] += max(0, missing)
	again.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels, Annotations: s.Annotations}
	p.ok(p.admin.Create(p.Context(), again))
	p.pass(5 * time.Second)
}

func (p *hands) ofMachine(m *v1alpha1.Machine) {
	base := v1alpha1.BaseOf(m.Name)
	other := bareSets[0]
	if base == other {
		other = bareSets[1]
	}
	switch p.IntN(6) {
	case 0:
		p.asked[m.UID] = true
		p.lost(m)
		policy := oneOf(p.Rand, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)
		p.did("delete Machine %s %s", m.Name, policy)
		p.ok(p.admin.Delete(p.Context(), m, client.PropagationPolicy(policy)))
	case 1:
		p.annotate(m, v1alpha1.AnnotationPaused, v1alpha1.AnnotationDeleteMachine, v1alpha1.AnnotationDeleteMachineCAPI, v1alpha1.AnnotationPriority)
	case 2:
		p.label(m, base)
	case 3:
		p.label(m, oneOf(p.Rand, "", other))
	case 4: // A set takes its own Machine back, and creates none in its place.
		if ref := metav1.GetControllerOf(m); ref != nil && (ref.Name != base || m.Labels["set"] != base) {
			p.lost(m)
		}
		p.patch(m, `{"metadata":{"ownerReferences":null}}`)
	default:
		p.give(m, base, other)
	}
}

// lost records that a Machine no longer belongs to its set, or to the set that would take it back. That set may create another.
func (p *hands) lost(m *v1alpha1.Machine) {
	if ref := metav1.GetControllerOf(m); ref != nil {
		p.creates[ref.Name]++
	} else if base := v1alpha1.BaseOf(m.Name); m.Labels["set"] == base {
		p.creates[base]++
	}
}

// label writes the label of a Machine that the selectors of the sets match; an empty value removes it. The set with that name may then have
// one Machine too many.
func (p *hands) label(m *v1alpha1.Machine, value string) {
	if m.Labels["set"] == value {
		return
	}
	p.lost(m)
	p.deletes[value]++
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	p.patch(m, fmt.Sprintf(`{"metadata":{"labels":{"set":%s}}}`, text))
}

// give makes the other set the owner of a Machine. The other set keeps the Machine if its label matches, and otherwise the Machine returns.
func (p *hands) give(m *v1alpha1.Machine, base, other string) {
	s := get(p, p.admin, other)
	if metav1.IsControlledBy(m, s) {
		return
	}
	p.lost(m)
	p.deletes[base]++
	p.deletes[other]++
	refs, err := json.Marshal([]metav1.OwnerReference{*metav1.NewControllerRef(s, v1alpha1.MachineSetKind)})
	p.ok(err)
	p.patch(m, fmt.Sprintf(`{"metadata":{"ownerReferences":%s}}`, refs))
}
