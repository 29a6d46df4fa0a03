package drain

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The calls that a drain makes to the API server, answered from a [world].

// Get reads a pod or a volume claim.
func (w *world) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch o := o.(type) {
	case *corev1.Pod:
		for _, p := range w.pods {
			if p.pod.Name == key.Name {
				*o = p.pod
				return nil
			}
		}
	case *corev1.PersistentVolumeClaim:
		o.Spec.VolumeName, o.Spec.AccessModes = key.Name, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List lists the pods of the node, or the volumes that are attached to it.
func (w *world) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	if w.outage {
		return errors.New("connection refused")
	}
	switch list := list.(type) {
	case *corev1.PodList:
		for _, p := range w.pods {
			list.Items = append(list.Items, p.pod)
		}
	case *storagev1.VolumeAttachmentList:
		var o client.ListOptions
		o.ApplyOptions(options)
		for _, v := range w.attached {
			if o.FieldSelector == nil || o.FieldSelector.Matches(fieldsOf(v.name)) {
				list.Items = append(list.Items, storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.name}}})
			}
		}
	}
	return nil
}

// attachmentFields are the indexed fields of the attachment of a volume.
type attachmentFields string

func fieldsOf(volume string) attachmentFields { return attachmentFields(volume) }

// Has reports whether the field is indexed.
func (attachmentFields) Has(string) bool { return true }

// Get returns the value of an indexed field.
func (f attachmentFields) Get(field string) string {
	if field == IndexNode {
		return "n"
	}
	return string(f)
}

// Patch stores the Node.
func (w *world) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	if w.outage {
		return errors.New("connection refused")
	}
	w.node = o.(*corev1.Node).DeepCopy()
	return nil
}

// SubResource returns the Eviction API.
func (w *world) SubResource(string) client.SubResourceClient { return evictions{world: w} }

type evictions struct {
	client.SubResourceClient
	world *world
}

// Create requests the eviction of a pod.
func (e evictions) Create(_ context.Context, o, eviction client.Object, _ ...client.SubResourceCreateOption) error {
	w := e.world
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.pods, func(p *modelPod) bool { return p.pod.UID == o.GetUID() })
	if i < 0 {
		return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
	}
	p := w.pods[i]
	p.asked++
	p.lastAsked = w.now
	switch b := w.budgets[p.budget]; {
	case w.now < p.unanswered:
		return errors.New("EOF")
	case w.now < p.denied:
		return apierrors.NewForbidden(schema.GroupResource{}, p.pod.Name, errors.New("a webhook says no"))
	case p.pod.DeletionTimestamp == nil && w.now < b.closed:
		return tooMany()
	case p.pod.DeletionTimestamp == nil:
		b.closed = w.now + b.recovery
	}
	grace := *p.pod.Spec.TerminationGracePeriodSeconds
	if short := eviction.(*policyv1.Eviction).DeleteOptions.GracePeriodSeconds; short != nil {
		grace = *short
	}
	w.granted(p, time.Duration(grace)*time.Second)
	return nil
}

// granted begins the end of a pod.
func (w *world) granted(p *modelPod, grace time.Duration) {
	if p.pod.DeletionTimestamp != nil {
		return
	}
	w.checkTurn(p)
	w.evictions[p.owner]++
	p.grace, p.grantedAt, p.endsAt = grace, w.now, w.now+time.Duration(float64(grace)*p.speed)
	p.pod.DeletionTimestamp = &metav1.Time{Time: noon.Add(w.now + grace)}
	seconds := int64(grace / time.Second)
	p.pod.DeletionGracePeriodSeconds = &seconds
}
