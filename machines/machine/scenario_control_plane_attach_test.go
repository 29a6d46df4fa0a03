package machine_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	volumeDriver = "volumes.drover.example"
	// driverFinalizer is the finalizer with which a CSI driver's attacher keeps an attachment until the driver's cloud has
	// detached the volume.
	driverFinalizer = "external-attacher/volumes-drover-example"
)

// testAttachController waits until the control plane's own attach-detach controller attaches a pod's volume, and detaches it once drover
// has evicted the pod. The test acts as the CSI driver.
func (w *world) testAttachController(t *testing.T) {
	m := w.ready("attached")
	w.useVolume("attached")
	var a storagev1.VolumeAttachment
	asked := func() bool {
		var list storagev1.VolumeAttachmentList
		if err := w.client.List(w.ctx, &list); err != nil {
			return false
		}
		for _, a = range list.Items {
			if a.Spec.NodeName == "attached" && a.Spec.Attacher == volumeDriver {
				return true
			}
		}
		return false
	}
	w.eventually("the control plane asks for the volume", asked)
	w.must(w.client.Patch(w.ctx, &a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+driverFinalizer+`"]}}`))))
	w.must(w.client.Status().Patch(w.ctx, &a, client.RawPatch(types.MergePatchType, []byte(`{"status":{"attached":true}}`))))
	w.eventually("the control plane has attached it", func() bool { return len(w.node("attached").Status.VolumesAttached) == 1 })

	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "its pod is gone, and it waits for the volume", func(m *v1alpha1.Machine) bool {
		return find(m, v1alpha1.ConditionDeleting).Reason == "WaitingForVolumes"
	})
	w.eventually("the control plane deletes the attachment", func() bool { return asked() && a.DeletionTimestamp != nil })
	if n := w.cloud.count("DeleteServer attached"); n != 0 {
		t.Errorf("%d deletions of its server", n)
	}
	w.must(w.client.Patch(w.ctx, &a, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	w.until(m, "it is gone", gone)
}

// useVolume creates a pod with a CSI volume on a Node.
func (w *world) useVolume(node string) {
	w.t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	w.annotated(w.node(node), "volumes.kubernetes.io/controller-managed-attach-detach", "true")
	for _, o := range []client.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: volumeDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(true)}},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: volumeDriver, NodeID: node}}}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-csi"}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: volumeDriver, VolumeHandle: "v"}},
		}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: once, StorageClassName: ptr.To(""), VolumeName: "pv-csi", Resources: corev1.VolumeResourceRequirements{Requests: size},
		}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "database", Namespace: "default"}, Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "none"}}, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		}},
	} {
		w.must(w.client.Create(w.ctx, o))
	}
}

// eventually waits until the control plane has reached a state, for which reached returns true.
func (w *world) eventually(what string, reached func() bool) {
	w.t.Helper()
	if err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return reached(), nil }); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}
