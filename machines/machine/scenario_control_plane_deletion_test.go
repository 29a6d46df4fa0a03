package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
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
	if n := w.cloud.count("DeleteServer volumes"); n != 0 {
		t.Errorf("%d deletions of its server", n)
	}
	w.must(w.client.Delete(w.ctx, a))
	w.annotated(m, v1alpha1.AnnotationVolumeDetachTimeout, "1m") // any change requeues the Machine immediately
	w.until(m, "it is gone", gone)
	if err := w.client.Get(w.ctx, types.NamespacedName{Name: "volumes"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("its node: %v", err)
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
	patch := []byte(`{"metadata":{"annotations":null}}`)
	w.must(w.client.Patch(w.ctx, m, client.RawPatch(types.MergePatchType, patch)))
	w.until(m, "it is Ready", isReady)
	n := w.node("inherited")
	if n.UID != node.UID || n.Labels["team"] != "red" || m.Status.NodeRef.UID != node.UID || *m.Spec.ProviderID != id || w.cloud.count("EnsureServer inherited") != 0 {
		t.Errorf("labels %v, %+v", n.Labels, m.Spec)
	}
}

func (w *world) testShortened(*testing.T) {
	labels := map[string]string{"pool": "pool"}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	d.Spec.Template.Spec.Versions.Kubelet = strings.TrimPrefix(w.version, "v")
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
