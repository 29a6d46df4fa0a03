package machine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// ready creates a Machine with a Ready Node.
func (w *world) ready(name string) *v1alpha1.Machine {
	w.t.Helper()
	m := w.create(name, nil)
	w.until(m, "it has a server", hasServer)
	w.boot(m)
	w.until(m, "it is Ready", isReady)
	return m
}

// annotated sets an annotation of an object.
func (w *world) annotated(o client.Object, key, value string) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	w.must(w.client.Patch(w.ctx, o, client.RawPatch(types.MergePatchType, patch)))
}

func gone(m *v1alpha1.Machine) bool { return m.Name == "" }

func TestDeletionsOnARealControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("the server stays while a volume is attached to its empty Node (MC-61)", w.testVolumes)
	t.Run("the control plane detaches the volume of an evicted pod before the server is deleted (MC-61)", w.testAttachController)
	t.Run("a deletion forced during a drain, with a cloud that refuses, ends and names what may be left (MC-65, MCM-57)", w.testForce)
	t.Run("a pod with two budgets blocks the drain with the API server's message, and force ends it (F-22)", w.testTwoBudgets)
	t.Run("the control plane deletes the pods of a server that does not start before that server is deleted", w.testShutDown)
	t.Run("a Node of machine-controller is adopted unchanged", w.testTakenOver)
	t.Run("a join timeout that is shortened on the deployment applies at once", w.testShortened)
}

func (w *world) testVolumes(t *testing.T) {
	m := w.ready("volumes")
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "csi.example", NodeName: "volumes", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-1")}},
	}
	w.must(w.client.Create(w.ctx, a))
	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "it waits for the volume", func(m *v1alpha1.Machine) bool {
		c := find(m, v1alpha1.ConditionDeleting)
		return c.Reason == "WaitingForVolumes" && strings.Contains(c.Message, "pv-1")
	})
	if n := w.cloud.count("DeleteServer"); n != 0 {
		t.Errorf("%d deletions of its server", n)
	}
	w.must(w.client.Delete(w.ctx, a))
	w.annotated(m, v1alpha1.AnnotationVolumeDetachTimeout, "1m") // any change requeues the Machine immediately
	w.until(m, "it is gone", gone)
	if err := w.client.Get(w.ctx, types.NamespacedName{Name: "volumes"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("its node: %v", err)
	}
}

func (w *world) testForce(t *testing.T) {
	m := w.ready("forced")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stays", Namespace: "default", Finalizers: []string{"drover.example/stays"}},
		Spec: corev1.PodSpec{NodeName: "forced", Containers: []corev1.Container{{Name: "c", Image: "none"}}, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
	w.must(w.client.Create(w.ctx, pod))
	w.cloud.mu.Lock()
	w.cloud.refusal = fault.New(fault.Auth, fault.CodeForbidden, "you may not")
	w.cloud.mu.Unlock()
	defer func() {
		w.cloud.mu.Lock()
		w.cloud.refusal = nil
		w.cloud.mu.Unlock()
	}()
	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "it waits for its pods", func(m *v1alpha1.Machine) bool {
		return find(m, v1alpha1.ConditionDeleting).Reason == "DrainingNode"
	})
	w.annotated(m, v1alpha1.AnnotationForceDelete, "true")
	w.until(m, "it is gone", gone)
	told := func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := w.client.List(ctx, &list)
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == "forced" && strings.Contains(e.Note, "may be left")
		}), err
	}
	if err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, 30*time.Second, true, told); err != nil {
		t.Errorf("no Event names what may be left: %v", err)
	}
}

func (w *world) testTakenOver(t *testing.T) {
	const id = "openstack://region/99999999-0000-4000-8000-000000000001"
	m := w.create("inherited", func(m *v1alpha1.Machine) {
		m.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""}
		m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
		m.Spec.ProviderID = ptr.To(id)
	})
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "inherited", Labels: map[string]string{v1alpha1.LabelOwnedBy: string(m.UID), "team": "red"},
			Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: "default/inherited"},
		},
		Spec: corev1.NodeSpec{ProviderID: id},
	}
	w.must(w.client.Create(w.ctx, node))
	base := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	w.must(w.client.Status().Patch(w.ctx, node, client.MergeFrom(base)))
	s := &fakeServer{exists: true, key: client.ObjectKeyFromObject(m), Server: cloud.Server{
		ID: "99999999-0000-4000-8000-000000000001", Name: "inherited", Owner: m.UID, ProviderID: id, Created: time.Now().Add(-time.Hour),
	}}
	w.cloud.active(s)
	w.cloud.mu.Lock()
	w.cloud.servers[m.UID] = s
	w.cloud.mu.Unlock()
	before := w.cloud.count("EnsureServer")
	patch := []byte(`{"metadata":{"annotations":null}}`)
	w.must(w.client.Patch(w.ctx, m, client.RawPatch(types.MergePatchType, patch)))
	w.until(m, "it is Ready", isReady)
	n := w.node("inherited")
	if n.UID != node.UID || n.Labels["team"] != "red" || m.Status.NodeRef.UID != node.UID || *m.Spec.ProviderID != id || w.cloud.count("EnsureServer") != before {
		t.Errorf("labels %v, %+v", n.Labels, m.Spec)
	}
}

func (w *world) testShortened(*testing.T) {
	labels := map[string]string{"pool": "pool"}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	w.must(w.client.Create(w.ctx, d))
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool-1", OwnerReferences: []metav1.OwnerReference{ownedBy("MachineDeployment", d)}}}
	set.Spec.Selector, set.Spec.Template = d.Spec.Selector, d.Spec.Template
	w.must(w.client.Create(w.ctx, set))
	m := w.create("slow", func(m *v1alpha1.Machine) {
		m.OwnerReferences = []metav1.OwnerReference{ownedBy("MachineSet", set)}
		m.Annotations = map[string]string{v1alpha1.AnnotationInitializers: "the set is in the cache"}
	})
	w.annotated(d, v1alpha1.AnnotationJoinTimeout, "1h")
	w.annotated(m, v1alpha1.AnnotationInitializers, "")
	w.until(m, "it has a server", hasServer)
	w.annotated(d, v1alpha1.AnnotationJoinTimeout, "1s")
	w.until(m, "it is given up", func(m *v1alpha1.Machine) bool { return gone(m) || m.DeletionTimestamp != nil })
}
