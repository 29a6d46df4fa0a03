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

func (h *harness) rollback() {
	h.create(group("back", size(2)))
	h.settled("back", 2)
	h.patch("back", otherKubelet)
	h.eventually("the rollout", func() (string, bool) {
		r := h.get("back").Annotations[v1alpha1.AnnotationRevision]
		return r, r == "2"
	})
	h.settled("back", 2)
	h.patch("back", `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRollbackTo+`":"7"}}}`)
	h.reported("back", rollout.ReasonRollbackNotFound)
	h.patch("back", `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRollbackTo+`":"1"}}}`)
	h.reported("back", rollout.ReasonRollback)
	h.eventually("the former template", func() (string, bool) {
		d := h.get("back")
		_, asked := d.Annotations[v1alpha1.AnnotationRollbackTo]
		kubelet := d.Spec.Template.Spec.Versions.Kubelet
		return kubelet, kubelet == "1.37.1" && !asked && d.Annotations[v1alpha1.AnnotationRevision] == "3"
	})
	h.settled("back", 2)
	for _, m := range h.machines("back") {
		if m.Spec.Versions.Kubelet != "1.37.1" {
			h.t.Errorf("%s has kubelet %s", m.Name, m.Spec.Versions.Kubelet)
		}
	}
	if _, hash := h.get("back").Spec.Template.Metadata.Labels[v1alpha1.LabelTemplateHash]; hash {
		h.t.Error("the template has the label of a set")
	}
}

// reported waits for an Event about a deployment.
func (h *harness) reported(name, reason string) {
	h.t.Helper()
	h.eventually("the Event "+reason, func() (string, bool) {
		var events eventsv1.EventList
		if err := h.client.List(h.t.Context(), &events, client.InNamespace("default")); err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(len(events.Items)), slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.Reason == reason
		})
	})
}

// nodesBeingRolled rolls a group and then rolls it back. Before the rollout, an operator sets on one Node the taint and the
// annotation that drover sets in a rollout.
func (h *harness) nodesBeingRolled() {
	h.create(group("avoided", size(3)))
	h.settled("avoided", 3)
	old := h.machines("avoided")
	before := map[string]*corev1.Node{}
	for i, m := range old {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Annotations: map[string]string{"note": "kept", v1alpha1.AnnotationNodeMachine: m.Namespace + "/" + m.Name}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "people", Effect: corev1.TaintEffectNoSchedule}}}}
		if i == 0 {
			node.Annotations[v1alpha1.AnnotationScaleDownDisabled] = "true"
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintRolling, Value: "mine", Effect: corev1.TaintEffectPreferNoSchedule})
		}
		if err := h.client.Create(h.t.Context(), node); err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { _ = h.client.Delete(context.Background(), node) })
		before[m.Name] = h.node(m.Name)
	}
	h.actor.hold("avoided", creates)
	h.patch("avoided", otherKubelet)
	for name := range before {
		h.eventually("the rollout's taints and annotations of "+name, func() (string, bool) {
			n := h.node(name)
			return fmt.Sprint(n.Annotations, n.Spec.Taints), n.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "true" &&
				slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintRolling }) &&
				n.Annotations[v1alpha1.AnnotationNodeRolling] != ""
		})
	}
	// Before the rollback, an operator sets another value for one of drover's annotations on a Node. drover must keep that value.
	changed := old[2].Name
	if err := h.client.Patch(h.t.Context(), h.node(changed), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationScaleDownDisabled+`":"false"}}}`))); err != nil {
		h.t.Fatal(err)
	}
	before[changed].Annotations[v1alpha1.AnnotationScaleDownDisabled] = "false"
	h.patch("avoided", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.1"}}}}}`)
	h.actor.letGo("avoided")
	h.settled("avoided", 3)
	for name, was := range before {
		h.eventually(name+" to be as it was", func() (string, bool) {
			n := h.node(name)
			diff := cmp.Diff(was.Annotations, n.Annotations) + cmp.Diff(was.Spec.Taints, n.Spec.Taints)
			return diff, diff == ""
		})
	}
}

// nodesThatReplace deletes a Machine by hand and keeps its deletion from ending, as a long drain would. It watches the Node that
// takes the Machine's pods.
func (h *harness) nodesThatReplace() {
	h.create(group("awaited", size(2)))
	h.settled("awaited", 2)
	before := h.machines("awaited")
	// The API server stores times in whole seconds. A replacement that is created in the same second as the first Machines cannot be
	// distinguished from them.
	h.eventually("the next second", func() (string, bool) {
		made := before[len(before)-1].CreationTimestamp
		return made.String(), time.Since(made.Time) > 2*time.Second
	})
	h.actor.hold("awaited", deletes)
	if err := h.client.Delete(h.t.Context(), &before[0]); err != nil {
		h.t.Fatal(err)
	}
	var name string
	h.eventually("the replacement", func() (string, bool) {
		for _, m := range h.machines("awaited") {
			if m.Name != before[0].Name && m.Name != before[1].Name && m.Status.NodeRef != nil {
				name = m.Name
			}
		}
		return name, name != ""
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"note": "kept", v1alpha1.AnnotationNodeMachine: "default/" + name}}}
	if err := h.client.Create(h.t.Context(), node); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = h.client.Delete(context.Background(), node) })
	h.patch("awaited", `{"metadata":{"annotations":{"look":"again"}}}`)
	h.eventually("the annotation that keeps the autoscaler off it", func() (string, bool) {
		n := h.node(name)
		return fmt.Sprint(n.Annotations, n.Spec.Taints), n.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "true" && len(n.Spec.Taints) == 0
	})
	h.actor.letGo("awaited")
	h.eventually("the Node to be as it was", func() (string, bool) {
		n := h.node(name)
		return fmt.Sprint(n.Annotations), len(n.Annotations) == 2 && n.Annotations["note"] == "kept"
	})
}

func (h *harness) node(name string) *corev1.Node {
	h.t.Helper()
	n := &corev1.Node{}
	if err := h.client.Get(h.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		h.t.Fatal(err)
	}
	// The annotations and taints that the control plane itself sets on the Node are left out.
	maps.DeleteFunc(n.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, "node.alpha.kubernetes.io/") })
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	return n
}

func (h *harness) plansShown() {
	h.create(group("shown", size(2)))
	h.settled("shown", 2)
	h.patch("shown", otherKubelet)
	h.eventually("the rollout", func() (string, bool) {
		r := h.get("shown").Annotations[v1alpha1.AnnotationRevision]
		return r, r == "2"
	})
	h.settled("shown", 2)
	var records []rollout.Record
	if code := h.page("?group=MachineDeployment/default/shown", &records); code != http.StatusOK || len(records) < 4 {
		h.t.Fatalf("%d plans, %d plans", code, len(records))
	}
	for _, record := range records {
		again, err := record.Replay()
		if diff := cmp.Diff(record.Steps, again.Steps); err != nil || diff != "" {
			h.t.Errorf("%v: plan computed again (-served +computed):\n%s", err, diff)
		}
	}
	var counts []struct {
		Group string
		Plans int
	}
	if code := h.page("", &counts); code != http.StatusOK || len(counts) == 0 || !strings.HasPrefix(counts[0].Group, "MachineDeployment/default/") {
		h.t.Errorf("status %d, groups %v", code, counts)
	}
	for query, want := range map[string]int{"?group=shown": http.StatusBadRequest, "?group=MachineDeployment/default/nobody": http.StatusNotFound} {
		if code := h.page(query, nil); code != want {
			h.t.Errorf("%s is answered with %d, want %d", query, code, want)
		}
	}
}

// page requests /plans with a query, and decodes a successful answer into the given value.
func (h *harness) page(query string, into any) int {
	h.t.Helper()
	answer := httptest.NewRecorder()
	h.deployments.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/plans"+query, nil))
	if into != nil && answer.Code == http.StatusOK {
		if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
			h.t.Fatal(err)
		}
	}
	return answer.Code
}
