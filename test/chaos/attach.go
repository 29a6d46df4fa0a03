package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// volumeName is a persistent volume, its claim, and who attaches it.
	volumeName = "data"
	// detachTime is how long after its pod a volume leaves its node.
	detachTime = 7 * time.Second
	// busyTime is how long after a Machine was asked to go its pod may not be evicted.
	busyTime = 45 * time.Second
)

// addVolume gives the pods a volume, and a budget that forbids to evict them at first.
func (w *World) addVolume() error {
	w.volume = true
	driver := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.org", VolumeHandle: volumeName}}
	for _, o := range []client.Object{
		&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: volumeName},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeSource: driver,
			},
		},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: volumeName, Namespace: metav1.NamespaceDefault},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: volumeName,
			},
		},
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: volumeName, Namespace: metav1.NamespaceDefault},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(1)), Selector: w.replicas.Spec.Selector,
			},
		},
	} {
		if err := w.admin.Create(w.ctx, o); err != nil {
			return fmt.Errorf("furnishing the cluster with a volume: %w", err)
		}
	}
	controllers, err := client.New(w.Kube.ConfigOver(door{nil, w, w.Kube.RoundTripper("controllers"), controllersCall}), client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return err
	}
	w.all.Go(func() {
		for sleep(w.ctx, time.Second) {
			w.note(w.count(w.ctx, controllers))
			w.note(w.attach(w.ctx, controllers))
		}
	})
	return nil
}

// leave notes that a Machine is asked to go; left tells when the first was.
func (w *World) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving.IsZero() {
		w.leaving = time.Now()
	}
}

func (w *World) left() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leaving
}

// note keeps what went wrong with the world itself.
func (w *World) note(err error) {
	if w.ctx.Err() == nil {
		w.order.note(err)
	}
}

// count is the cluster's disruption controller: it says how many pods may go.
func (w *World) count(ctx context.Context, c client.Client) error {
	var budget policyv1.PodDisruptionBudget
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: volumeName}, &budget); err != nil {
		return err
	}
	allowed := int32(0)
	if since := w.left(); !since.IsZero() && time.Since(since) > busyTime {
		allowed = 1
	}
	if budget.Status.ObservedGeneration == budget.Generation && budget.Status.DisruptionsAllowed == allowed {
		return nil
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: allowed, DesiredHealthy: 1, CurrentHealthy: 1 + allowed, ExpectedPods: 1,
	}
	return client.IgnoreNotFound(c.Status().Update(ctx, &budget))
}

// attach is the cluster's controller of attachments: a volume is attached where its pod is, and leaves the node some
// time after the pod.
func (w *World) attach(ctx context.Context, c client.Client) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err
	}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volumeName}}
	err := c.Get(ctx, client.ObjectKeyFromObject(attachment), attachment)
	switch there := err == nil; {
	case client.IgnoreNotFound(err) != nil:
		return err
	case len(pods.Items) > 0:
		w.used = time.Now()
		if there {
			return nil
		}
		attachment.Spec = storagev1.VolumeAttachmentSpec{
			Attacher: "example.org", NodeName: pods.Items[0].Spec.NodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(volumeName)},
		}
		return c.Create(ctx, attachment)
	case there && time.Since(w.used) > detachTime:
		return client.IgnoreNotFound(c.Delete(ctx, attachment))
	}
	return nil
}
