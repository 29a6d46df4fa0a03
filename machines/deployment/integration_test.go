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

func TestDeploymentsOnARealControlPlane(t *testing.T) {
	w := newWorld(t)
	// Those that count writes, or set the environment, are alone.
	t.Run("a roll of 20 costs few writes", func(t *testing.T) { w.on(t).writes() })
	w.edited(t)
	t.Run("together", func(t *testing.T) {
		w.manifests(t)
		w.wholeObjects(t)
		for name, test := range map[string]func(*world){
			"kubectl scale": (*world).kubectlScale,
			"MC-18 a changed template rolls, the size keeps":                                (*world).roll,
			"CA-C65 CA-C66 MCM-32 exactly the named Machines go":                            (*world).namedGo,
			"CA-C68 a named Machine that somebody deleted is not replaced":                  (*world).namedAndDeleted,
			"CA-C80 removals in the middle of a rollout":                                    (*world).removalsInARoll,
			"CA-C68 CA-C80 CA-C82 several removals within milliseconds in a rollout":        (*world).hurried,
			"MCM-34 a Machine deleted by hand is replaced once":                             (*world).replaced,
			"a dropped spec.replicas comes back":                                            (*world).replicasDropped,
			"MC-30 MC-33 orphans are adopted, strangers released, others' left":             (*world).adoption,
			"CA-C17 bounds that cannot be read are told in a condition":                     (*world).badBounds,
			"CAPI-53 CAPI-54 a re-ordered template and a set of another maker roll nothing": (*world).takeOver,
			"MC-31 a deleted deployment takes everything along, and nothing comes back":     (*world).cascade,
			"MCM-18 a rollback, and one to an unknown revision":                             (*world).rollback,
			"MCM-20 nodes being rolled are marked, and set free exactly":                    (*world).nodesBeingRolled,
			"a node that replaces one which drains for long is kept from the autoscaler":    (*world).nodesThatReplace,
			"the plans of a roll are shown, and can be made again":                          (*world).plansShown,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(w.on(t))
			})
		}
	})
}

func (w *world) on(t testing.TB) *world {
	clone := *w
	clone.t = t
	return &clone
}

func (w *world) deleteLater(d *v1alpha1.MachineDeployment) {
	w.t.Cleanup(func() {
		_ = w.client.Delete(context.Background(), d, client.PropagationPolicy(metav1.DeletePropagationForeground))
	})
}

func (w *world) create(d *v1alpha1.MachineDeployment) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	w.deleteLater(d)
}

func (w *world) kubectlScale() {
	w.create(group("scaled", size(2)))
	w.settled("scaled", 2)
	for _, m := range w.machines("scaled") {
		if !strings.Contains(strings.Join(m.Finalizers, " "), v1alpha1.FinalizerServer) || m.Spec.Metadata.Name != m.Name {
			w.t.Errorf("MC-39 %s: finalizers %v, server name %q", m.Name, m.Finalizers, m.Spec.Metadata.Name)
		}
	}
	for _, n := range []int32{5, 1, 0, 3} {
		if out, err := w.kube.Kubectl(w.t.Context(), "scale", "machinedeployment/scaled", fmt.Sprintf("--replicas=%d", n)); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
		w.settled("scaled", n)
	}
	if got := w.get("scaled"); got.Status.Selector != "group=scaled" || *got.Status.LastReplicas != 3 {
		w.t.Errorf("MC-4 selector %q, last size %d", got.Status.Selector, *got.Status.LastReplicas)
	}
}

func (w *world) roll() {
	w.create(group("rolled", size(3)))
	w.settled("rolled", 3)
	before := names(w.machines("rolled"))
	w.patch("rolled", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	w.eventually("the roll", func() (string, bool) {
		for name := range names(w.machines("rolled")) {
			if before[name] {
				return name + " is still there", false
			}
		}
		return "", true
	})
	w.settled("rolled", 3)
	if got := w.get("rolled").Annotations[v1alpha1.AnnotationRevision]; got != "2" {
		w.t.Errorf("MC-20 revision %q", got)
	}
}

func (w *world) namedGo() {
	w.create(group("named", size(6)))
	w.settled("named", 6)
	all := w.machines("named")
	w.remove("named", all[1])
	w.remove("named", all[4])
	w.remove("named", all[2], all[5])
	w.settled("named", 2)
	left := names(w.machines("named"))
	if !left[all[0].Name] || !left[all[3].Name] {
		w.t.Errorf("CA-C88 left are %v, unnamed were %s and %s", left, all[0].Name, all[3].Name)
	}
	w.patch("named", `{"spec":{"replicas":4}}`)
	w.settled("named", 4)
}

func (w *world) namedAndDeleted() {
	w.create(group("dying", size(3)))
	w.settled("dying", 3)
	w.actor.hold("dying", deletes)
	defer w.actor.letGo("dying")
	victim := w.machines("dying")[0]
	if err := w.client.Delete(w.t.Context(), &victim); err != nil {
		w.t.Fatal(err)
	}
	w.remove("dying", victim)
	w.actor.letGo("dying")
	w.settled("dying", 2)
}

func (w *world) removalsInARoll() {
	w.create(group("busy", size(4)))
	w.settled("busy", 4)
	old := w.machines("busy")
	w.actor.hold("busy", creates)
	defer w.actor.letGo("busy")
	w.patch("busy", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	w.eventually("a new Machine", func() (string, bool) { return "", len(w.machines("busy")) == 5 })
	w.remove("busy", old[2])
	w.eventually("the named one to go, and only that", func() (string, bool) {
		now := names(w.machines("busy"))
		return fmt.Sprint(now), len(now) == 4 && !now[old[2].Name] && now[old[0].Name] && now[old[1].Name] && now[old[3].Name]
	})
	w.actor.letGo("busy")
	w.settled("busy", 3)
}

// hurried names several Machines one after the other in a roll, one of which somebody deletes at the same time.
func (w *world) hurried() {
	w.create(group("hurried", size(5)))
	w.settled("hurried", 5)
	old := w.machines("hurried")
	w.actor.hold("hurried", creates)
	defer w.actor.letGo("hurried")
	w.patch("hurried", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	w.eventually("a new Machine", func() (string, bool) { return "", len(w.machines("hurried")) == 6 })
	if err := w.client.Delete(w.t.Context(), &old[4]); err != nil {
		w.t.Fatal(err)
	}
	for _, i := range []int{4, 0, 2} {
		w.remove("hurried", old[i])
	}
	w.eventually("the named ones to go, and only those", func() (string, bool) {
		now := names(w.machines("hurried"))
		return fmt.Sprint(now), len(now) == 3 && now[old[1].Name] && now[old[3].Name]
	})
	w.actor.letGo("hurried")
	w.settled("hurried", 2)
}

func (w *world) replaced() {
	w.create(group("healed", size(3)))
	w.settled("healed", 3)
	before := names(w.machines("healed"))
	victim := w.machines("healed")[1]
	if err := w.client.Delete(w.t.Context(), &victim); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("a replacement", func() (string, bool) {
		now := names(w.machines("healed"))
		return fmt.Sprint(now), len(now) == 3 && !now[victim.Name]
	})
	w.settled("healed", 3)
	var made int
	for name := range names(w.machines("healed")) {
		if !before[name] {
			made++
		}
	}
	if made != 1 {
		w.t.Errorf("%d were made, 1 was lost", made)
	}
}

func (w *world) replicasDropped() {
	d := group("gitops", nil)
	d.Annotations = map[string]string{v1alpha1.AnnotationsMinSize[0]: "2", v1alpha1.AnnotationsMaxSize[0]: "5"}
	w.create(d)
	w.settled("gitops", 2)
	w.patch("gitops", `{"spec":{"replicas":4}}`)
	w.settled("gitops", 4)
	w.patch("gitops", `{"spec":{"replicas":null}}`)
	w.eventually("the size to come back", func() (string, bool) {
		n := w.get("gitops").Spec.Replicas
		return fmt.Sprint(n), n != nil && *n == 4
	})
	w.settled("gitops", 4)

	w.create(group("plain", nil))
	w.settled("plain", 1)
}

func (w *world) adoption() {
	w.create(group("adopting", size(2)))
	w.settled("adopting", 2)
	m := w.machines("adopting")[0]
	body := `{"metadata":{"labels":{"group":"stranger"}}}`
	if err := w.client.Patch(w.t.Context(), &m, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the release", func() (string, bool) {
		stranger := &v1alpha1.Machine{}
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(&m), stranger); err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(stranger.OwnerReferences), len(stranger.OwnerReferences) == 0
	})
	w.settled("adopting", 2)
	body = `{"metadata":{"labels":{"group":"adopting"}}}`
	if err := w.client.Patch(w.t.Context(), &m, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
	w.settled("adopting", 2)
	var sets v1alpha1.MachineSetList
	if err := w.client.List(w.t.Context(), &sets, client.MatchingLabels{"group": "adopting"}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Patch(w.t.Context(), &sets.Items[0], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
		w.t.Fatal(err)
	}
	stranger := newStranger(w)
	w.eventually("the set to be adopted", func() (string, bool) {
		s := &v1alpha1.MachineSet{}
		err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(&sets.Items[0]), s)
		return fmt.Sprint(err, s.OwnerReferences), err == nil && metav1.IsControlledBy(s, w.get("adopting"))
	})
	w.settled("adopting", 2)
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(stranger), stranger); err != nil || stranger.OwnerReferences[0].Kind != "ConfigMap" {
		w.t.Errorf("a set of somebody else has the owners %v, %v", stranger.OwnerReferences, err)
	}
}

// newStranger is a set that the deployment's selector matches and that another object controls.
func newStranger(w *world) *v1alpha1.MachineSet {
	w.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "somebody", Namespace: "default"}}
	if err := w.client.Create(w.t.Context(), owner); err != nil {
		w.t.Fatal(err)
	}
	labels := map[string]string{"group": "adopting", "somebody": "else"}
	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "somebodys", Namespace: "default", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
		Spec: v1alpha1.MachineSetSpec{Replicas: size(0), Selector: metav1.LabelSelector{MatchLabels: labels}, Template: *w.get("adopting").Spec.Template.DeepCopy()},
	}
	set.Spec.Template.Metadata.Labels = labels
	if err := w.client.Create(w.t.Context(), set); err != nil {
		w.t.Fatal(err)
	}
	return set
}

// writes counts what the controllers write to sets and deployments while 20 Machines roll in steps of 5.
func (w *world) writes() {
	d := group("counted", size(20))
	surge := intstr.FromInt32(5)
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: &surge}}
	w.create(d)
	w.settled("counted", 20)
	before := w.counted()
	w.patch("counted", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	w.eventually("the roll to begin", func() (string, bool) { return "", len(w.machines("counted")) > 20 })
	w.settled("counted", 20)
	after := w.counted()
	w.t.Logf("20 Machines rolled: %d writes to sets and deployments, %d Machines made, %d deleted",
		after["owners"]-before["owners"], after["create"]-before["create"], after["delete"]-before["delete"])
	for what, n := range after {
		w.t.Logf("    %s: %d", what, n-before[what])
	}
	if made, deleted := after["create"]-before["create"], after["delete"]-before["delete"]; made != 20 || deleted != 20 {
		w.t.Errorf("%d made and %d deleted, 20 were rolled", made, deleted)
	}
	if n := after["owners"] - before["owners"]; n > 40 {
		w.t.Errorf("%d writes to sets and deployments, at most 2 for each of 20 Machines are wanted", n)
	}
}

// counted reads the audit log: writes of this group's sets and deployment, creates and deletes of its Machines.
func (w *world) counted() map[string]int {
	w.t.Helper()
	requests, err := w.kube.Requests()
	if err != nil {
		w.t.Fatal(err)
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

// takeOver lets a set that another program made, with names and a provider document of its own, be the current one.
func (w *world) takeOver() {
	d := group("taken", size(2))
	labels := map[string]string{"group": "taken", v1alpha1.LabelTemplateHash: "584598b977"}
	former := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "taken-584598b977", Namespace: "default", Labels: labels,
			Annotations: map[string]string{v1alpha1.AnnotationRevision: "7", v1alpha1.AnnotationRevisionHistory: "2,5"}},
		Spec: v1alpha1.MachineSetSpec{Replicas: size(2), Selector: metav1.LabelSelector{MatchLabels: labels}, Template: *d.Spec.Template.DeepCopy()},
	}
	former.Spec.Template.Metadata.Labels = labels
	former.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProviderSpec":{"region":"","flavor":"m1.small"},"cloudProvider":"openstack","network":null}`)
	if err := w.client.Create(w.t.Context(), former); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the former set's Machines", func() (string, bool) { return "", len(w.machines("taken")) == 2 })
	before := names(w.machines("taken"))
	w.create(d)
	w.settled("taken", 2)
	for name := range names(w.machines("taken")) {
		if !before[name] {
			w.t.Errorf("%s is new", name)
		}
	}
	var sets v1alpha1.MachineSetList
	if err := w.client.List(w.t.Context(), &sets, client.MatchingLabels{"group": "taken"}); err != nil {
		w.t.Fatal(err)
	}
	if len(sets.Items) != 1 || sets.Items[0].Annotations[v1alpha1.AnnotationRevisionHistory] != "2,5" || w.get("taken").Annotations[v1alpha1.AnnotationRevision] != "7" {
		w.t.Errorf("%d sets, history %v, revision %v", len(sets.Items), sets.Items[0].Annotations, w.get("taken").Annotations)
	}
}

func (w *world) badBounds() {
	d := group("bounded", size(1))
	d.Annotations = map[string]string{v1alpha1.AnnotationsMaxSize[0]: "lots"}
	w.create(d)
	w.settled("bounded", 1)
	w.eventually("the condition", func() (string, bool) {
		for _, c := range w.get("bounded").Status.Conditions {
			if c.Type == v1alpha1.ConditionBoundsValid {
				return c.Message, c.Status == metav1.ConditionFalse && strings.Contains(c.Message, `"lots"`)
			}
		}
		return "no condition", false
	})
}

func (w *world) cascade() {
	d := group("doomed", size(3))
	w.create(d)
	w.settled("doomed", 3)
	known := map[types.UID]bool{}
	for _, m := range w.machines("doomed") {
		known[m.UID] = true
	}
	if err := w.client.Delete(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("everything to go", func() (string, bool) {
		var sets v1alpha1.MachineSetList
		if err := w.client.List(w.t.Context(), &sets, client.MatchingLabels{"group": "doomed"}); err != nil {
			return err.Error(), false
		}
		for _, m := range w.machines("doomed") {
			if !known[m.UID] {
				w.t.Errorf("Machine %s came while its deployment went", m.Name)
			}
		}
		err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(d), &v1alpha1.MachineDeployment{})
		left := len(w.machines("doomed")) + len(sets.Items)
		return fmt.Sprintf("%d objects, deployment: %v", left, err), left == 0 && client.IgnoreNotFound(err) == nil && err != nil
	})
}
