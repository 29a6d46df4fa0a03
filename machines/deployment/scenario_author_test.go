package deployment_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sample"
)

var (
	authorObjects = flag.Int("author-objects", sample.Or(200, 2000), "how many random deployments and sets an author writes")
	authorSeed    = flag.Uint64("author-seed", 0, "the first random world; each world has the next seed")
)

// perWorld is how many deployments and sets the author of one world writes, and authorEdits how many edits follow.
const perWorld, authorEdits = 50, 120

// author writes random objects into one namespace while the controllers run, and knows how many Machines they ask for.
type author struct {
	*harness
	*rand.Rand
	// most is the largest number of Machines, with surge, that a deployment or a set has asked for. taken counts the Machines that the author
	// has taken away from it, or has asked for beside it. The keys are those of origin.
	most, taken map[string]int
	// given holds the deployments to which the author has given a set, by the origin of the set's Machines: such a deployment may give the
	// set its own size.
	given       map[string][]string
	deployments []string
	failed      string
}

// pick returns one of the values.
func pick[T any](random interface{ IntN(n int) int }, values ...T) T {
	return values[random.IntN(len(values))]
}

// origin returns for which deployment, or else for which set, a Machine of the set was made.
func (a *author) origin(set string) string {
	if base := v1alpha1.BaseOf(set); v1alpha1.EndsWithHash(set) && slices.Contains(a.deployments, base) {
		return base
	}
	return set
}

func (a *author) label() map[string]string {
	labels := map[string]string{"group": fmt.Sprint("g", a.IntN(6))}
	if a.IntN(3) == 0 {
		labels["team"] = pick(a, "a", "b")
	}
	if a.IntN(8) == 0 {
		labels[v1alpha1.LabelTemplateHash] = pick(a, "5d9f7c8b6", "584598b977")
	}
	return labels
}

// write creates one random deployment or set.
func (a *author) write(i int) {
	labels, size := a.label(), a.Int32N(4)
	selector := metav1.LabelSelector{MatchLabels: labels}
	if a.IntN(10) == 0 {
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: pick(a, v1alpha1.LabelTemplateHash, "team"), Operator: pick(a, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpExists)}}
	}
	if a.IntN(5) < 2 {
		s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i), Namespace: "default", Labels: labels}}
		s.Spec = v1alpha1.MachineSetSpec{Replicas: &size, Selector: selector, Template: group("x", nil).Spec.Template}
		s.Spec.Template.Metadata.Labels = labels
		a.most[s.Name] = int(size)
		a.must(a.client.Create(a.t.Context(), s))
		return
	}
	d := group(fmt.Sprint("d", i), &size)
	surge := a.IntN(3)
	d.Spec.Selector, d.Spec.Template.Metadata.Labels = selector, labels
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{
		Type:          pick(a, v1alpha1.RollingUpdate, v1alpha1.RollingUpdate, v1alpha1.Recreate, v1alpha1.OnDelete),
		RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: new(intstr.FromInt(surge)), MaxUnavailable: new(intstr.FromInt32(1))},
	}
	a.most[d.Name] = int(size) + surge
	a.deployments = append(a.deployments, d.Name)
	a.must(a.client.Create(a.t.Context(), d))
}

func (a *author) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// objects returns the deployments, sets and living Machines of the namespace, from the cache of the controllers. They must not be changed.
func (a *author) objects() (deployments []v1alpha1.MachineDeployment, sets []v1alpha1.MachineSet, machines []v1alpha1.Machine) {
	a.t.Helper()
	var ds v1alpha1.MachineDeploymentList
	var ss v1alpha1.MachineSetList
	var ms v1alpha1.MachineList
	for _, l := range []client.ObjectList{&ds, &ss, &ms} {
		a.must(a.actor.client.List(a.t.Context(), l, client.InNamespace("default"), client.UnsafeDisableDeepCopy))
	}
	for i := range ms.Items {
		if ms.Items[i].DeletionTimestamp.IsZero() {
			machines = append(machines, ms.Items[i])
		}
	}
	return ds.Items, ss.Items, machines
}

// edit makes one random change of one random object.
func (a *author) edit() {
	deployments, sets, machines := a.objects()
	owners := []map[string]any{nil}
	for i := range deployments {
		owners = append(owners, owner(v1alpha1.MachineDeploymentKind.Kind, deployments[i].Name, deployments[i].UID))
	}
	for i := range sets {
		owners = append(owners, owner(v1alpha1.MachineSetKind.Kind, sets[i].Name, sets[i].UID))
	}
	switch kind := a.IntN(3); {
	case kind == 0 && len(deployments) > 0:
		d := &deployments[a.IntN(len(deployments))]
		a.change(d, a.ofDeployment(d))
	case kind == 1 && len(sets) > 0:
		s := &sets[a.IntN(len(sets))]
		a.change(s, a.ofSet(s, machines, pick(a, owners...)))
	case len(machines) > 0:
		m := &machines[a.IntN(len(machines))]
		a.change(m, a.ofMachine(m, pick(a, owners...)))
	}
}

func owner(kind, name string, uid types.UID) map[string]any {
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "name": name, "uid": uid, "controller": true}
}

// change writes fields of an object, or deletes the object when fields is nil.
func (a *author) change(o client.Object, fields map[string]any) {
	o = o.DeepCopyObject().(client.Object)
	if fields == nil {
		a.must(client.IgnoreNotFound(a.client.Delete(a.t.Context(), o)))
		return
	}
	body, err := json.Marshal(fields)
	a.must(err)
	a.must(client.IgnoreNotFound(a.client.Patch(a.t.Context(), o, client.RawPatch(types.MergePatchType, body))))
}

// oneLabel returns a change of one label.
func (a *author) oneLabel() map[string]any {
	key := pick(a, "group", "group", "team", v1alpha1.LabelTemplateHash, v1alpha1.LabelFreeze)
	return map[string]any{key: pick[any](a, nil, "True", "a", fmt.Sprint("g", a.IntN(6)))}
}

func (a *author) oneAnnotation() map[string]any {
	key := pick(a, v1alpha1.AnnotationDesiredReplicas, v1alpha1.AnnotationMaxReplicas, v1alpha1.AnnotationRevision, v1alpha1.AnnotationRolloutRecord,
		v1alpha1.AnnotationStoredTemplate, v1alpha1.AnnotationNoCreate, v1alpha1.AnnotationPaused, v1alpha1.AnnotationDeleteMachine, v1alpha1.AnnotationRollbackTo,
		v1alpha1.AnnotationDecided)
	return map[string]any{key: pick[any](a, nil, nil, "true", "0", "1", "7", "7.x")}
}

func metadata(key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{key: value}}
}

func (a *author) ofDeployment(d *v1alpha1.MachineDeployment) map[string]any {
	switch a.IntN(7) {
	case 0:
		return metadata("labels", a.oneLabel())
	case 1, 2:
		return metadata("annotations", a.oneAnnotation())
	case 3:
		return map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": a.oneLabel()}}}
	case 4:
		return map[string]any{"spec": map[string]any{"template": metadata("labels", a.oneLabel())}}
	case 5:
		return map[string]any{"spec": map[string]any{"template": metadata("annotations", a.oneAnnotation())}}
	}
	size := a.IntN(4)
	a.most[d.Name] = max(a.most[d.Name], size+d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue())
	return map[string]any{"spec": map[string]any{"replicas": size}}
}

func (a *author) ofSet(s *v1alpha1.MachineSet, machines []v1alpha1.Machine, owner map[string]any) map[string]any {
	origin := a.origin(s.Name)
	switch a.IntN(8) {
	case 0, 1:
		return metadata("labels", a.oneLabel())
	case 2:
		return metadata("annotations", a.oneAnnotation())
	case 3:
		if owner != nil {
			a.given[origin] = append(a.given[origin], owner["name"].(string))
		}
		return metadata("ownerReferences", owners(owner))
	case 4: // With another selector, the set may give up each of its Machines.
		for i := range machines {
			if v1alpha1.IsMachineNameOf(s.Name, machines[i].Name) {
				a.taken[origin]++
			}
		}
		labels := a.oneLabel()
		return map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": metadata("labels", labels)}}
	case 5:
		return map[string]any{"spec": map[string]any{"template": metadata(pick(a, "labels", "annotations"), a.oneLabel())}}
	case 6:
		return nil
	}
	size := a.IntN(4)
	if origin == s.Name {
		a.most[origin] = max(a.most[origin], size)
	} else {
		a.taken[origin] += size
	}
	return map[string]any{"spec": map[string]any{"replicas": size}}
}

func owners(owner map[string]any) any {
	if owner == nil {
		return nil
	}
	return []any{owner}
}

func (a *author) ofMachine(m *v1alpha1.Machine, owner map[string]any) map[string]any {
	switch a.IntN(4) {
	case 0:
		return metadata("annotations", a.oneAnnotation())
	case 1:
		return nil
	}
	a.taken[a.origin(v1alpha1.BaseOf(m.Name))]++
	fields := map[string]any{"labels": a.oneLabel()}
	if a.IntN(2) == 0 {
		fields["ownerReferences"] = owners(owner)
	}
	return map[string]any{"metadata": fields}
}

// allowed returns how many living Machines may exist that were made for a deployment or a set.
func (a *author) allowed(origin string) int {
	most := a.most[origin] + a.taken[origin]
	for _, d := range a.given[origin] {
		most += a.most[d]
	}
	return most
}

// check compares the living Machines of each origin with what was asked for.
func (a *author) check() {
	_, sets, machines := a.objects()
	living := map[string]int{}
	for i := range machines {
		living[a.origin(v1alpha1.BaseOf(machines[i].Name))]++
	}
	for origin, n := range living {
		if most := a.allowed(origin); n > most && a.failed == "" {
			var of []string
			for i := range sets {
				if a.origin(sets[i].Name) == origin {
					of = append(of, fmt.Sprintf("%s: replicas %d, labels %v, owners %v, selector %v", sets[i].Name, *sets[i].Spec.Replicas, sets[i].Labels, sets[i].OwnerReferences, sets[i].Spec.Selector))
				}
			}
			a.failed = fmt.Sprintf("%s has %d living Machines, and at most %d were asked for, %d of them by edits of its sets and Machines; its sets:\n%s", origin, n, most, a.taken[origin], strings.Join(of, "\n"))
		}
	}
}

// live makes the author write and edit, and checks the invariant every second.
func (a *author) live() {
	for i := range perWorld {
		a.write(i)
	}
	for range authorEdits {
		time.Sleep(time.Duration(a.IntN(250)) * time.Millisecond)
		a.edit()
		if a.IntN(4) == 0 {
			a.check()
		}
	}
	for range 3 {
		time.Sleep(10 * time.Second)
		a.check()
	}
	if a.failed != "" {
		a.t.Error(a.failed)
	}
}

func TestNoObjectOfAnAuthorMakesMoreMachinesThanItAsksFor(t *testing.T) {
	t.Run("at most maxSurge living Machines exist beyond the size of a deployment, and none beyond that of a set, while labels, annotations, selectors and owners are edited (F-106)", func(t *testing.T) {
		for world := range uint64(*authorObjects / perWorld) {
			seed := *authorSeed + world
			inFlipOver(t, func(string) time.Duration { return 0 }, func(next http.RoundTripper) http.RoundTripper { return next }, func(h *harness) {
				a := &author{harness: h, Rand: rand.New(rand.NewPCG(seed, 0)), most: map[string]int{"flip": 4}, taken: map[string]int{}, given: map[string][]string{}, deployments: []string{"flip"}}
				a.live()
			})
			if t.Failed() {
				t.Fatalf("repeat this world with -author-objects=%d -author-seed=%d", perWorld, seed)
			}
		}
	})
}
