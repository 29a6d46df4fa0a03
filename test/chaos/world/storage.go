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
	// volumeName is the name of a persistent volume, its claim, its attachment and the pods' budget.
	volumeName = "data"
	// detachTime is how long after its pod a volume leaves its node.
	detachTime = 17 * time.Second
	// busyTime is how long after Leave pods may not be evicted.
	busyTime = 45 * time.Second
)

// addVolume makes the pods' volume, and a budget that forbids their eviction at first.
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
			return fmt.Errorf("furnishing the cluster with a volume: %w", err)
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

// storage is what the cluster's own controllers remember.
type storage struct {
	mu sync.Mutex
	// leaving is when the first Machine was deleted.
	leaving time.Time
	// used is when a pod last used the volume.
	used time.Time
}

// Leave notes that a Machine is about to be deleted.
func (w *World) Leave() {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	if w.storage.leaving.IsZero() {
		w.storage.leaving = time.Now()
	}
}

// busy reports whether the pod may not be evicted yet.
func (s *storage) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving.IsZero() || time.Since(s.leaving) <= busyTime
}

// note keeps a failure of the world itself.
func (w *World) note(err error) {
	if w.Context.Err() == nil {
		w.teardown.note(err)
	}
}

// countDisruptions is the cluster's disruption controller: it writes how many pods may be evicted.
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

// attach is the cluster's controller of volume attachments: a volume is attached to its pod's Node, and is detached some time
// after the pod is gone.
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
