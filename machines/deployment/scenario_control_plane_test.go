package deployment_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/set"
)

func TestADeploymentFollowsItsSpecOnARealControlPlane(t *testing.T) {
	h := newHarness(t)
	// Tests that count writes or set the environment do not run in parallel with others.
	t.Run("a deployment replaces 20 Machines in a rollout with at most 40 writes to sets and deployments", func(t *testing.T) { h.on(t).writes() })
	h.edited(t)
	t.Run("beside other deployments", func(t *testing.T) {
		h.manifests(t)
		h.droppedFields(t)
		for name, test := range map[string]func(*harness){
			"gets as many Machines as a user requests with kubectl scale":                                          (*harness).kubectlScale,
			"replaces its Machines when its template changes, and keeps its size (MC-18)":                          (*harness).roll,
			"is deleted together with its sets and Machines, and no Machine is created meanwhile (MC-31)":          (*harness).cascade,
			"rolls back to an earlier revision, and reports a rollback to a revision that does not exist (MCM-18)": (*harness).rollback,
		} {
			t.Run("a deployment "+name, func(t *testing.T) {
				t.Parallel()
				test(h.on(t))
			})
		}
	})
}

// These rules need no real API server, so they are tested in memory and in virtual time. Rules about Events cannot be tested in this way:
// two Events of one object at the same moment have the same name, and in virtual time this happens.
func TestADeploymentFollowsItsSpec(t *testing.T) {
	for name, test := range map[string]func(*harness){
		"deletes exactly the Machines in spec.removals (CA-C65, CA-C66, MCM-32)":                                                            (*harness).namedGo,
		"creates no replacement for a Machine in spec.removals when another client deletes that Machine (CA-C68)":                           (*harness).namedAndDeleted,
		"deletes exactly the Machines in spec.removals during a rollout (CA-C80)":                                                           (*harness).removalsInARoll,
		"deletes exactly the Machines in spec.removals when a client adds three Machines quickly during a rollout (CA-C68, CA-C80, CA-C82)": (*harness).hurried,
		"creates one replacement for a Machine that was deleted by hand (MCM-34)":                                                           (*harness).replaced,
		"gets its last spec.replicas back after a client removed the field":                                                                 (*harness).replicasDropped,
		"adopts sets without an owner, releases sets that its selector does not match, and ignores sets of other owners (MC-30, MC-33)":     (*harness).adoption,
		"reports in a condition that its size bounds are not numbers (CA-C17)":                                                              (*harness).badBounds,
		"keeps Machines that machine-controller created when only key order and empty fields of the templates differ (CAPI-53, CAPI-54)":    (*harness).takeOver,
		"taints Nodes during a rollout, and restores them exactly after a rollback (MCM-20)":                                                (*harness).nodesBeingRolled,
		"disables scale-down of a replacement Node during a long drain of the Node that it replaces":                                        (*harness).nodesThatReplace,
		"has an HTTP page with the plans of its rollout, and with the data from which each plan can be recomputed":                          (*harness).plansShown,
	} {
		t.Run("a deployment "+name, func(t *testing.T) { inFlip(t, 0, test) })
	}
}

func (h *harness) on(t testing.TB) *harness {
	clone := *h
	clone.t = t
	return &clone
}

func (h *harness) deleteLater(d *v1alpha1.MachineDeployment) {
	h.t.Cleanup(func() {
		_ = h.client.Delete(context.Background(), d, client.PropagationPolicy(metav1.DeletePropagationForeground))
	})
}

func (h *harness) create(d *v1alpha1.MachineDeployment) {
	h.t.Helper()
	if err := h.client.Create(h.t.Context(), d); err != nil {
		h.t.Fatal(err)
	}
	h.deleteLater(d)
}

func (h *harness) kubectlScale() {
	h.create(group("scaled", size(2)))
	h.settled("scaled", 2)
	for _, m := range h.machines("scaled") {
		if !strings.Contains(strings.Join(m.Finalizers, " "), v1alpha1.FinalizerServer) || m.Spec.Metadata.Name != m.Name {
			h.t.Errorf("%s: finalizers %v, server name %q", m.Name, m.Finalizers, m.Spec.Metadata.Name)
		}
	}
	for _, n := range []int32{5, 1, 0, 3} {
		if out, err := h.kube.Kubectl(h.t.Context(), "scale", "machinedeployment/scaled", fmt.Sprintf("--replicas=%d", n)); err != nil {
			h.t.Fatalf("%v: %s", err, out)
		}
		h.settled("scaled", n)
	}
	if got := h.get("scaled"); got.Status.Selector != "group=scaled" || *got.Status.LastReplicas != 3 {
		h.t.Errorf("selector %q, last size %d", got.Status.Selector, *got.Status.LastReplicas)
	}
}

func (h *harness) roll() {
	h.create(group("rolled", size(3)))
	h.settled("rolled", 3)
	before := names(h.machines("rolled"))
	h.patch("rolled", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	h.eventually("the rollout", func() (string, bool) {
		for name := range names(h.machines("rolled")) {
			if before[name] {
				return name + " is still there", false
			}
		}
		return "", true
	})
	h.settled("rolled", 3)
	if got := h.get("rolled").Annotations[v1alpha1.AnnotationRevision]; got != "2" {
		h.t.Errorf("revision %q", got)
	}
}

func (h *harness) namedGo() {
	h.create(group("named", size(6)))
	h.settled("named", 6)
	all := h.machines("named")
	h.remove("named", all[1])
	h.remove("named", all[4])
	h.remove("named", all[2], all[5])
	h.settled("named", 2)
	left := names(h.machines("named"))
	if !left[all[0].Name] || !left[all[3].Name] {
		h.t.Errorf("left are %v, unnamed were %s and %s (CA-C88)", left, all[0].Name, all[3].Name)
	}
	h.patch("named", `{"spec":{"replicas":4}}`)
	h.settled("named", 4)
}

func (h *harness) namedAndDeleted() {
	h.create(group("dying", size(3)))
	h.settled("dying", 3)
	h.actor.hold("dying", deletes)
	defer h.actor.letGo("dying")
	victim := h.machines("dying")[0]
	if err := h.client.Delete(h.t.Context(), &victim); err != nil {
		h.t.Fatal(err)
	}
	h.remove("dying", victim)
	h.actor.letGo("dying")
	h.settled("dying", 2)
}

func (h *harness) removalsInARoll() {
	h.create(group("busy", size(4)))
	h.settled("busy", 4)
	old := h.machines("busy")
	h.actor.hold("busy", creates)
	defer h.actor.letGo("busy")
	h.patch("busy", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	h.eventually("a new Machine", func() (string, bool) { return "", len(h.machines("busy")) == 5 })
	h.remove("busy", old[2])
	h.eventually("only the named Machine to be deleted", func() (string, bool) {
		now := names(h.machines("busy"))
		return fmt.Sprint(now), len(now) == 4 && !now[old[2].Name] && now[old[0].Name] && now[old[1].Name] && now[old[3].Name]
	})
	h.actor.letGo("busy")
	h.settled("busy", 3)
}

// hurried names several Machines for removal, one after the other, during a rollout. Another client deletes one of these Machines at
// the same time.
func (h *harness) hurried() {
	h.create(group("hurried", size(5)))
	h.settled("hurried", 5)
	old := h.machines("hurried")
	h.actor.hold("hurried", creates)
	defer h.actor.letGo("hurried")
	h.patch("hurried", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	h.eventually("a new Machine", func() (string, bool) { return "", len(h.machines("hurried")) == 6 })
	if err := h.client.Delete(h.t.Context(), &old[4]); err != nil {
		h.t.Fatal(err)
	}
	for _, i := range []int{4, 0, 2} {
		h.remove("hurried", old[i])
	}
	h.eventually("only the named Machines to be deleted", func() (string, bool) {
		now := names(h.machines("hurried"))
		return fmt.Sprint(now), len(now) == 3 && now[old[1].Name] && now[old[3].Name]
	})
	h.actor.letGo("hurried")
	h.settled("hurried", 2)
}

func (h *harness) replaced() {
	h.create(group("healed", size(3)))
	h.settled("healed", 3)
	before := names(h.machines("healed"))
	victim := h.machines("healed")[1]
	if err := h.client.Delete(h.t.Context(), &victim); err != nil {
		h.t.Fatal(err)
	}
	h.eventually("a replacement", func() (string, bool) {
		now := names(h.machines("healed"))
		return fmt.Sprint(now), len(now) == 3 && !now[victim.Name]
	})
	h.settled("healed", 3)
	var made int
	for name := range names(h.machines("healed")) {
		if !before[name] {
			made++
		}
	}
	if made != 1 {
		h.t.Errorf("%d Machines were created, want 1", made)
	}
}

func (h *harness) replicasDropped() {
	d := group("gitops", nil)
	d.Annotations = map[string]string{v1alpha1.AnnotationsMinSize[0]: "2", v1alpha1.AnnotationsMaxSize[0]: "5"}
	h.create(d)
	h.settled("gitops", 2)
	h.patch("gitops", `{"spec":{"replicas":4}}`)
	h.settled("gitops", 4)
	h.patch("gitops", `{"spec":{"replicas":null}}`)
	h.eventually("the size to be restored", func() (string, bool) {
		n := h.get("gitops").Spec.Replicas
		return fmt.Sprint(n), n != nil && *n == 4
	})
	h.settled("gitops", 4)

	h.create(group("plain", nil))
	h.settled("plain", 1)
}

func (h *harness) adoption() {
	h.create(group("adopting", size(2)))
	h.settled("adopting", 2)
	m := h.machines("adopting")[0]
	body := `{"metadata":{"labels":{"group":"foreign"}}}`
	if err := h.client.Patch(h.t.Context(), &m, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		h.t.Fatal(err)
	}
	h.eventually("the release", func() (string, bool) {
		foreign := &v1alpha1.Machine{}
		if err := h.client.Get(h.t.Context(), client.ObjectKeyFromObject(&m), foreign); err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(foreign.OwnerReferences), len(foreign.OwnerReferences) == 0
	})
	h.settled("adopting", 2)
	body = `{"metadata":{"labels":{"group":"adopting"}}}`
	if err := h.client.Patch(h.t.Context(), &m, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		h.t.Fatal(err)
	}
	h.settled("adopting", 2)
	var sets v1alpha1.MachineSetList
	if err := h.client.List(h.t.Context(), &sets, client.MatchingLabels{"group": "adopting"}); err != nil {
		h.t.Fatal(err)
	}
	if err := h.client.Patch(h.t.Context(), &sets.Items[0], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
		h.t.Fatal(err)
	}
	foreign := newForeignSet(h)
	h.eventually("the set to be adopted", func() (string, bool) {
		s := &v1alpha1.MachineSet{}
		err := h.client.Get(h.t.Context(), client.ObjectKeyFromObject(&sets.Items[0]), s)
		return fmt.Sprint(err, s.OwnerReferences), err == nil && metav1.IsControlledBy(s, h.get("adopting"))
	})
	h.settled("adopting", 2)
	if err := h.client.Get(h.t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.OwnerReferences[0].Kind != "ConfigMap" {
		h.t.Errorf("a set of another controller has the owners %v, %v", foreign.OwnerReferences, err)
	}
}

// newForeignSet returns a set that the deployment's selector matches and that another object controls.
func newForeignSet(h *harness) *v1alpha1.MachineSet {
	h.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "somebody", Namespace: "default"}}
	if err := h.client.Create(h.t.Context(), owner); err != nil {
		h.t.Fatal(err)
	}
	labels := map[string]string{"group": "adopting", "somebody": "else"}
	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "somebodys", Namespace: "default", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
		Spec: v1alpha1.MachineSetSpec{Replicas: size(0), Selector: metav1.LabelSelector{MatchLabels: labels}, Template: *h.get("adopting").Spec.Template.DeepCopy()},
	}
	set.Spec.Template.Metadata.Labels = labels
	if err := h.client.Create(h.t.Context(), set); err != nil {
		h.t.Fatal(err)
	}
	return set
}

// writes counts the controllers' writes to sets and deployments while 20 Machines are rolled in steps of 5.
func (h *harness) writes() {
	d := group("counted", size(20))
	surge := intstr.FromInt32(5)
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: &surge}}
	h.create(d)
	h.settled("counted", 20)
	before := h.counted()
	h.patch("counted", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	h.eventually("the rollout to begin", func() (string, bool) { return "", len(h.machines("counted")) > 20 })
	h.settled("counted", 20)
	after := h.counted()
	h.t.Logf("20 Machines rolled: %d writes to sets and deployments, %d Machines created, %d deleted",
		after["owners"]-before["owners"], after["create"]-before["create"], after["delete"]-before["delete"])
	for what, n := range after {
		h.t.Logf("    %s: %d", what, n-before[what])
	}
	if made, deleted := after["create"]-before["create"], after["delete"]-before["delete"]; made != 20 || deleted != 20 {
		h.t.Errorf("%d Machines created and %d deleted, want 20 of each", made, deleted)
	}
	if n := after["owners"] - before["owners"]; n > 40 {
		h.t.Errorf("%d writes to sets and deployments, want at most 2 for each of 20 Machines", n)
	}
}

// counted returns the numbers of writes to this group's sets and deployment, and of creates and deletes of its Machines, from the audit
// log.
func (h *harness) counted() map[string]int {
	h.t.Helper()
	requests, err := h.kube.Requests()
	if err != nil {
		h.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range requests {
		if !r.Wrote() || !strings.Contains(r.URI, "counted") && !strings.Contains(r.URI, set.FieldManager) {
			continue
		}
		switch r.Resource {
		case "machinesets", "machinedeployments":
			counts["owners"]++
			counts[r.Resource+"/"+r.Subresource+" "+r.Verb]++
		case "machines":
			counts[r.Verb]++
		}
	}
	return counts
}

// takeOver creates a set with the deployment's template as another program would: with another name and another order of fields
// in the provider spec.
func (h *harness) takeOver() {
	d := group("taken", size(2))
	labels := map[string]string{"group": "taken", v1alpha1.LabelTemplateHash: "584598b977"}
	former := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "taken-584598b977", Namespace: "default", Labels: labels,
			Annotations: map[string]string{v1alpha1.AnnotationRevision: "7", v1alpha1.AnnotationRevisionHistory: "2,5"}},
		Spec: v1alpha1.MachineSetSpec{Replicas: size(2), Selector: metav1.LabelSelector{MatchLabels: labels}, Template: *d.Spec.Template.DeepCopy()},
	}
	former.Spec.Template.Metadata.Labels = labels
	former.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProviderSpec":{"region":"","flavor":"m1.small"},"cloudProvider":"openstack","network":null}`)
	if err := h.client.Create(h.t.Context(), former); err != nil {
		h.t.Fatal(err)
	}
	h.eventually("the former set's Machines", func() (string, bool) { return "", len(h.machines("taken")) == 2 })
	before := names(h.machines("taken"))
	h.create(d)
	h.settled("taken", 2)
	for name := range names(h.machines("taken")) {
		if !before[name] {
			h.t.Errorf("%s is new", name)
		}
	}
	var sets v1alpha1.MachineSetList
	if err := h.client.List(h.t.Context(), &sets, client.MatchingLabels{"group": "taken"}); err != nil {
		h.t.Fatal(err)
	}
	if len(sets.Items) != 1 || sets.Items[0].Annotations[v1alpha1.AnnotationRevisionHistory] != "2,5" || h.get("taken").Annotations[v1alpha1.AnnotationRevision] != "7" {
		h.t.Errorf("%d sets, history %v, revision %v", len(sets.Items), sets.Items[0].Annotations, h.get("taken").Annotations)
	}
}

func (h *harness) badBounds() {
	d := group("bounded", size(1))
	d.Annotations = map[string]string{v1alpha1.AnnotationsMaxSize[0]: "lots"}
	h.create(d)
	h.settled("bounded", 1)
	h.eventually("the condition", func() (string, bool) {
		for _, c := range h.get("bounded").Status.Conditions {
			if c.Type == v1alpha1.ConditionBoundsValid {
				return c.Message, c.Status == metav1.ConditionFalse && strings.Contains(c.Message, `"lots"`)
			}
		}
		return "no condition", false
	})
}

func (h *harness) cascade() {
	d := group("doomed", size(3))
	h.create(d)
	h.settled("doomed", 3)
	known := map[types.UID]bool{}
	for _, m := range h.machines("doomed") {
		known[m.UID] = true
	}
	if err := h.client.Delete(h.t.Context(), d); err != nil {
		h.t.Fatal(err)
	}
	h.eventually("everything to be deleted", func() (string, bool) {
		var sets v1alpha1.MachineSetList
		if err := h.client.List(h.t.Context(), &sets, client.MatchingLabels{"group": "doomed"}); err != nil {
			return err.Error(), false
		}
		for _, m := range h.machines("doomed") {
			if !known[m.UID] {
				h.t.Errorf("Machine %s was created while its deployment was being deleted", m.Name)
			}
		}
		err := h.client.Get(h.t.Context(), client.ObjectKeyFromObject(d), &v1alpha1.MachineDeployment{})
		left := len(h.machines("doomed")) + len(sets.Items)
		return fmt.Sprintf("%d objects are left, deployment: %v", left, err), left == 0 && client.IgnoreNotFound(err) == nil && err != nil
	})
}
