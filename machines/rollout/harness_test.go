package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// simulation holds a deployment with its sets and Machines in memory. The test decides which actor acts next: the planner, a set or a
// Machine.
type simulation struct {
	now      time.Time
	serial   int
	d        *v1alpha1.MachineDeployment
	sets     []*v1alpha1.MachineSet
	machines []*v1alpha1.Machine
	// stuck lists the Machines whose deletion does not end. While slow is true, no deletion ends.
	stuck map[string]bool
	slow  bool
	limit *int32
	lost  []LostSet
	// onMake is called after a set has created a Machine.
	onMake func(set *v1alpha1.MachineSet)
	onPlan func(before Snapshot, p Plan)
	// most is the largest number of Machines that have existed at the same time.
	most int32
	// broken lists the templates whose Machines never become Ready.
	broken map[string]bool
	// deleted holds the names of all Machines that sets deleted; made counts the Machines that they created.
	deleted map[string]bool
	made    int
}

type shape struct {
	replicas           int32
	surge, unavailable string
}

func newSimulation(s shape) *simulation {
	surge, unavailable := intstr.Parse(s.surge), intstr.Parse(s.unavailable)
	w := &simulation{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), broken: map[string]bool{}, stuck: map[string]bool{}, deleted: map[string]bool{}}
	w.d = &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "md", Namespace: "ns", UID: "md-uid", Generation: 1},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: &s.replicas,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"group": "md"}},
			Strategy: &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate,
				RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: &surge, MaxUnavailable: &unavailable}},
			Template: v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: map[string]string{"group": "md"}}},
		},
	}
	w.template("A")
	return w
}

func (w *simulation) limits() (limits, error) { return limitsOf(w.d, *w.d.Spec.Replicas) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// template replaces the deployment's template by the template with the given name. The name is stored as the kubelet version.
func (w *simulation) template(name string) {
	w.d.Spec.Template.Spec.Versions.Kubelet = name
	w.d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"openstack"}`)}
	w.d.Generation++
}

func (w *simulation) scale(n int32) {
	w.d.Spec.Replicas = &n
	w.d.Generation++
}

func (w *simulation) remove(m *v1alpha1.Machine) {
	w.d.Spec.Removals = append(w.d.Spec.Removals, v1alpha1.Removal{Name: m.Name, UID: m.UID, Time: metav1.NewTime(w.now)})
	w.scale(*w.d.Spec.Replicas - 1)
}

func (w *simulation) snapshot() Snapshot {
	s := Snapshot{Deployment: w.d, Now: w.now, ReplacementLimit: w.limit, Lost: w.lost}
	for _, set := range w.sets {
		s.Sets = append(s.Sets, SetState{Set: set, Machines: w.of(set)})
	}
	return s
}

func (w *simulation) of(set *v1alpha1.MachineSet) []*v1alpha1.Machine {
	var mine []*v1alpha1.Machine
	for _, m := range w.machines {
		if metav1.IsControlledBy(m, set) {
			mine = append(mine, m)
		}
	}
	return mine
}

// plan computes a plan and carries it out. It reports whether it wrote to sets.
func (w *simulation) plan() (Plan, bool) {
	before := w.snapshot()
	p := must(Compute(before))
	if w.onPlan != nil {
		w.onPlan(before, p)
	}
	for _, c := range p.Changes {
		c.Set.Spec.Replicas = &c.Replicas
		c.Set.Spec.Removals, c.Set.Spec.RolloutRemovals = c.Removals, c.RolloutRemovals
		c.Set.Spec.MinReadySeconds = c.MinReadySeconds
		c.Set.Generation++
		maps.Copy(c.Set.Annotations, c.Annotations)
		maps.DeleteFunc(c.Set.Annotations, func(_, v string) bool { return v == "" })
	}
	if p.Create != nil {
		w.serial++
		p.Create.UID = types.UID(fmt.Sprintf("set-uid-%d", w.serial))
		p.Create.CreationTimestamp = metav1.NewTime(w.now.Add(time.Duration(w.serial) * time.Second))
		w.sets = append(w.sets, p.Create)
	}
	for _, gone := range p.Delete {
		w.sets = slices.DeleteFunc(w.sets, func(s *v1alpha1.MachineSet) bool { return s == gone })
	}
	if p.RestoreReplicas {
		w.d.Spec.Replicas = &p.Replicas
	}
	if p.WriteRemovals {
		w.d.Spec.Removals = p.Removals
	}
	w.d.Status = p.Status
	return p, len(p.Changes)+len(p.Delete) > 0 || p.Create != nil
}

// act does what the set controller does: it deletes the named Machines, and then creates or deletes Machines until the set has its size.
func (w *simulation) act(set *v1alpha1.MachineSet) {
	byName, byRollout := uidsOf(set.Spec.Removals), uidsOf(set.Spec.RolloutRemovals)
	var living []MachineFacts
	for _, m := range w.of(set) {
		f := Facts(m, set.Spec.MinReadySeconds, w.now)
		f.Listed = byName[m.UID] || byRollout[m.UID]
		switch {
		case f.Living():
			living = append(living, f)
		case m.DeletionTimestamp.IsZero():
			w.delete(m)
			w.deleted[m.Name] = true
		}
	}
	replicas := int32(len(living))
	surplus := len(living) - int(*set.Spec.Replicas)
	if why, _ := UndecidedSize(set); why != "" {
		surplus = 0
	}
	if surplus > 0 {
		replicas -= int32(surplus)
		for _, m := range DeletionOrder(living, set.Spec.DeletePolicy, nil)[:surplus] {
			w.delete(m)
			w.deleted[m.Name] = true
		}
	}
	for ; surplus < 0 && set.Annotations[v1alpha1.AnnotationNoCreate] == ""; surplus++ {
		w.make(set)
		replicas++
		if w.onMake != nil {
			w.onMake(set)
		}
	}
	set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, replicas
}

func (w *simulation) make(set *v1alpha1.MachineSet) {
	w.serial++
	w.made++
	name := fmt.Sprintf("%s%d", set.Spec.Template.Spec.Versions.Kubelet, w.serial)
	w.machines = append(w.machines, &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: types.UID(name + "-uid"), Finalizers: []string{v1alpha1.FinalizerServer},
			CreationTimestamp: metav1.NewTime(w.now.Add(time.Duration(w.serial) * time.Second)),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)},
		},
		Spec: set.Spec.Template.Spec,
	})
	w.most = max(w.most, int32(len(w.machines)))
}

// delete starts the deletion of a Machine. Its server still exists.
func (w *simulation) delete(m *v1alpha1.Machine) {
	if m.DeletionTimestamp.IsZero() {
		at := metav1.NewTime(w.now)
		m.DeletionTimestamp = &at
	}
}

// advance moves one Machine one step forward: it gets a server, becomes a Ready node, or its deletion ends. advance reports whether the
// Machine changed.
func (w *simulation) advance(m *v1alpha1.Machine) bool {
	switch {
	case (w.slow || w.stuck[m.Name]) && !m.DeletionTimestamp.IsZero():
		return false
	case !m.DeletionTimestamp.IsZero():
		w.machines = slices.DeleteFunc(w.machines, func(o *v1alpha1.Machine) bool { return o == m })
	case m.Spec.ProviderID == nil:
		id := "openstack:///" + m.Name
		m.Spec.ProviderID = &id
	case m.Status.NodeRef == nil && !w.broken[m.Spec.Versions.Kubelet]:
		w.ready(m, true)
	default:
		return false
	}
	return true
}

func (w *simulation) ready(m *v1alpha1.Machine, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
		m.Status.NodeRef = &corev1.ObjectReference{Name: m.Name}
	}
	at := metav1.NewTime(w.now)
	m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: status, LastTransitionTime: &at}}
}

// settle makes the planner, the sets and the Machines act until nothing changes, and logs each plan with changes.
func (w *simulation) settle(log *strings.Builder) {
	for range 1000 {
		p, wrote := w.plan()
		if wrote {
			fmt.Fprintf(log, "%s\n", w.sizes())
			for _, step := range p.Steps {
				fmt.Fprintf(log, "    %s\n", w.readable(step.String()))
			}
		}
		moved := wrote
		for _, set := range w.sets {
			before := w.made + len(w.deleted)
			w.act(set)
			moved = moved || w.made+len(w.deleted) > before
		}
		for _, m := range slices.Clone(w.machines) {
			moved = w.advance(m) || moved
		}
		if !moved {
			return
		}
	}
	panic("the simulation does not come to an end")
}

// sizes returns the sizes of the sets by template, the oldest set first.
func (w *simulation) sizes() string {
	var parts []string
	for _, set := range w.sets {
		parts = append(parts, set.Spec.Template.Spec.Versions.Kubelet+"="+strconv.Itoa(int(*set.Spec.Replicas)))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// readable replaces the name of a set in line by the name of the set's template.
func (w *simulation) readable(line string) string {
	for _, set := range w.sets {
		line = strings.ReplaceAll(line, set.Name, set.Spec.Template.Spec.Versions.Kubelet)
	}
	return line
}

// count returns the number of living Machines, of available Machines, and of leaving Machines that have a server.
func (w *simulation) count() (living, available, leaving int32) {
	listed := uidsOf(w.d.Spec.Removals)
	for _, set := range w.sets {
		maps.Copy(listed, uidsOf(set.Spec.RolloutRemovals))
	}
	for _, m := range w.machines {
		f := Facts(m, minReadySeconds(w.d), w.now)
		f.Listed = listed[m.UID]
		switch {
		case f.Living():
			living++
			if f.Available {
				available++
			}
		case f.HasServer():
			leaving++
		}
	}
	return living, available, leaving
}
