package deployment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

const otherKubelet = `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`

func (w *world) rollback() {
	w.create(group("back", size(2)))
	w.settled("back", 2)
	w.patch("back", otherKubelet)
	w.eventually("the roll", func() (string, bool) {
		r := w.get("back").Annotations[v1alpha1.AnnotationRevision]
		return r, r == "2"
	})
	w.settled("back", 2)
	w.patch("back", `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRollbackTo+`":"7"}}}`)
	w.told("back", rollout.ReasonRollbackNotFound)
	w.patch("back", `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRollbackTo+`":"1"}}}`)
	w.told("back", rollout.ReasonRollback)
	w.eventually("the former template", func() (string, bool) {
		d := w.get("back")
		_, asked := d.Annotations[v1alpha1.AnnotationRollbackTo]
		kubelet := d.Spec.Template.Spec.Versions.Kubelet
		return kubelet, kubelet == "1.37.1" && !asked && d.Annotations[v1alpha1.AnnotationRevision] == "3"
	})
	w.settled("back", 2)
	for _, m := range w.machines("back") {
		if m.Spec.Versions.Kubelet != "1.37.1" {
			w.t.Errorf("%s has kubelet %s", m.Name, m.Spec.Versions.Kubelet)
		}
	}
	if _, hash := w.get("back").Spec.Template.Metadata.Labels[v1alpha1.LabelTemplateHash]; hash {
		w.t.Error("the template has the label of a set")
	}
}

// told waits for an Event about a deployment.
func (w *world) told(name, reason string) {
	w.t.Helper()
	w.eventually("the Event "+reason, func() (string, bool) {
		var events eventsv1.EventList
		if err := w.client.List(w.t.Context(), &events, client.InNamespace("default")); err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(len(events.Items)), slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.Reason == reason
		})
	})
}

// nodesBeingRolled rolls a group of which one Node bears, from people, what drover would put there; the roll then goes back.
func (w *world) nodesBeingRolled() {
	w.create(group("avoided", size(3)))
	w.settled("avoided", 3)
	old := w.machines("avoided")
	before := map[string]*corev1.Node{}
	for i, m := range old {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Annotations: map[string]string{"note": "kept", v1alpha1.AnnotationNodeMachine: m.Namespace + "/" + m.Name}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "people", Effect: corev1.TaintEffectNoSchedule}}}}
		if i == 0 {
			node.Annotations[v1alpha1.AnnotationScaleDownDisabled] = "true"
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintRolling, Value: "mine", Effect: corev1.TaintEffectPreferNoSchedule})
		}
		if err := w.client.Create(w.t.Context(), node); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = w.client.Delete(context.Background(), node) })
		before[m.Name] = w.node(m.Name)
	}
	w.actor.hold("avoided", creates)
	w.patch("avoided", otherKubelet)
	for name := range before {
		w.eventually("marks of "+name, func() (string, bool) {
			n := w.node(name)
			return fmt.Sprint(n.Annotations, n.Spec.Taints), n.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "true" &&
				slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintRolling }) &&
				n.Annotations[v1alpha1.AnnotationNodeRolling] != ""
		})
	}
	// Somebody sets his own value meanwhile: it is his.
	changed := old[2].Name
	if err := w.client.Patch(w.t.Context(), w.node(changed), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationScaleDownDisabled+`":"false"}}}`))); err != nil {
		w.t.Fatal(err)
	}
	before[changed].Annotations[v1alpha1.AnnotationScaleDownDisabled] = "false"
	w.patch("avoided", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.1"}}}}}`)
	w.actor.letGo("avoided")
	w.settled("avoided", 3)
	for name, was := range before {
		w.eventually(name+" to be as it was", func() (string, bool) {
			n := w.node(name)
			diff := cmp.Diff(was.Annotations, n.Annotations) + cmp.Diff(was.Spec.Taints, n.Spec.Taints)
			return diff, diff == ""
		})
	}
}

// nodesThatReplace lets a Machine that a person deletes drain for long, and watches the node that is there for its pods.
func (w *world) nodesThatReplace() {
	w.create(group("awaited", size(2)))
	w.settled("awaited", 2)
	before := w.machines("awaited")
	// The API server's times are whole seconds. What takes the place of a Machine in the second in which it was made itself
	// cannot be told from its peers.
	w.eventually("the next second", func() (string, bool) {
		made := before[len(before)-1].CreationTimestamp
		return made.String(), time.Since(made.Time) > 2*time.Second
	})
	w.actor.hold("awaited", deletes)
	if err := w.client.Delete(w.t.Context(), &before[0]); err != nil {
		w.t.Fatal(err)
	}
	var name string
	w.eventually("the replacement", func() (string, bool) {
		for _, m := range w.machines("awaited") {
			if m.Name != before[0].Name && m.Name != before[1].Name && m.Status.NodeRef != nil {
				name = m.Name
			}
		}
		return name, name != ""
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"note": "kept", v1alpha1.AnnotationNodeMachine: "default/" + name}}}
	if err := w.client.Create(w.t.Context(), node); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.client.Delete(context.Background(), node) })
	w.patch("awaited", `{"metadata":{"annotations":{"look":"again"}}}`)
	w.eventually("the mark that keeps the autoscaler off it", func() (string, bool) {
		n := w.node(name)
		return fmt.Sprint(n.Annotations, n.Spec.Taints), n.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "true" && len(n.Spec.Taints) == 0
	})
	w.actor.letGo("awaited")
	w.eventually("the node to be as it was", func() (string, bool) {
		n := w.node(name)
		return fmt.Sprint(n.Annotations), len(n.Annotations) == 2 && n.Annotations["note"] == "kept"
	})
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		w.t.Fatal(err)
	}
	// The control plane has marks of its own.
	maps.DeleteFunc(n.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, "node.alpha.kubernetes.io/") })
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	return n
}

func (w *world) plansShown() {
	w.create(group("shown", size(2)))
	w.settled("shown", 2)
	w.patch("shown", otherKubelet)
	w.eventually("the roll", func() (string, bool) {
		r := w.get("shown").Annotations[v1alpha1.AnnotationRevision]
		return r, r == "2"
	})
	w.settled("shown", 2)
	var records []rollout.Record
	if code := w.page("?group=MachineDeployment/default/shown", &records); code != http.StatusOK || len(records) < 4 {
		w.t.Fatalf("%d, %d plans", code, len(records))
	}
	for _, record := range records {
		again, err := record.Replay()
		if diff := cmp.Diff(record.Steps, again.Steps); err != nil || diff != "" {
			w.t.Errorf("%v: -shown +made again\n%s", err, diff)
		}
	}
	var counts []struct {
		Group string
		Plans int
	}
	if code := w.page("", &counts); code != http.StatusOK || len(counts) == 0 || !strings.HasPrefix(counts[0].Group, "MachineDeployment/default/") {
		w.t.Errorf("%d, groups %v", code, counts)
	}
	for query, want := range map[string]int{"?group=shown": http.StatusBadRequest, "?group=MachineDeployment/default/nobody": http.StatusNotFound} {
		if code := w.page(query, nil); code != want {
			w.t.Errorf("%s is answered %d, want %d", query, code, want)
		}
	}
}

// page asks for the page of plans.
func (w *world) page(query string, into any) int {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.deployments.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/plans"+query, nil))
	if into != nil && answer.Code == http.StatusOK {
		if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
			w.t.Fatal(err)
		}
	}
	return answer.Code
}
