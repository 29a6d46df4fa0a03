package world

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/schedule"
)

const (
	// volumeName is the name of the PersistentVolume, its claim, its attachment and the pods' PodDisruptionBudget.
	volumeName = "data"
	// detachTime is the time from the end of a pod to the detachment of its volume.
	detachTime = 17 * time.Second
	// busyTime is how long after RecordDeletion the PodDisruptionBudget forbids evictions.
	busyTime = 45 * time.Second
)

// addVolume creates the pods' volume, and a PodDisruptionBudget that forbids their eviction at first.
func (w *World) addVolume() error {
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
		if err := w.Admin.Create(w.Context, o); err != nil {
			return fmt.Errorf("creating the volume: %w", err)
		}
	}
	config := w.Kube.ConfigOver(inTurn{w, w.Kube.RoundTripper("controllers"), calls.Controllers})
	controllers, err := client.New(config, client.Options{Scheme: Kinds, Mapper: mapper})
	if err != nil {
		return err
	}
	w.Go(func() {
		for schedule.Sleep(w.Context, time.Second) {
			w.note(w.countDisruptions(w.Context, controllers))
			w.note(w.attach(w.Context, controllers))
		}
	})
	return nil
}

// storage is the state of the simulated kube-controller-manager.
type storage struct {
	mu sync.Mutex
	// leaving is the time of the first call of RecordDeletion.
	leaving time.Time
	// used is the time at which a pod last used the volume.
	used time.Time
}

// RecordDeletion records that a Machine is about to be deleted.
func (w *World) RecordDeletion() {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	if w.storage.leaving.IsZero() {
		w.storage.leaving = time.Now()
	}
}

// busy reports whether the PodDisruptionBudget still forbids the pod's eviction.
func (s *storage) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving.IsZero() || time.Since(s.leaving) <= busyTime
}

// note records an error of the simulated cluster itself, unless the world is being closed.
func (w *World) note(err error) {
	if w.Context.Err() == nil {
		w.teardown.note(err)
	}
}

// countDisruptions does what the disruption controller does: it writes how many pods may be evicted.
func (w *World) countDisruptions(ctx context.Context, c client.Client) error {
	var budget policyv1.PodDisruptionBudget
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: volumeName}, &budget); err != nil {
		return err
	}
	allowed := int32(0)
	if !w.storage.busy() {
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

// attach does what the attach-detach controller does: it attaches a volume to the Node of its pod, and detaches it when the pod has been
// gone for detachTime.
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
		w.storage.used = time.Now()
		if there {
			return nil
		}
		attachment.Spec = storagev1.VolumeAttachmentSpec{
			Attacher: "example.org", NodeName: pods.Items[0].Spec.NodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(volumeName)},
		}
		return c.Create(ctx, attachment)
	case there && time.Since(w.storage.used) > detachTime:
		return client.IgnoreNotFound(c.Delete(ctx, attachment))
	}
	return nil
}
