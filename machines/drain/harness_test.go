package drain

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// indexed returns a fake client builder with the indexes that a drain uses.
func indexed() *fake.ClientBuilder {
	return fake.NewClientBuilder().
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&storagev1.VolumeAttachment{}, IndexNode, func(o client.Object) []string { return []string{AttachmentNode(o)} }).
		WithIndex(&storagev1.VolumeAttachment{}, IndexVolume, func(o client.Object) []string { return []string{AttachmentVolume(o)} })
}

// answering returns a Drainer. The function answer returns the API server's answer to each eviction, and asked collects the
// evictions.
func answering(answer func(pod string) error, asked *[]*policyv1.Eviction, pods ...corev1.Pod) *Drainer {
	builder := indexed()
	var mu sync.Mutex
	for i := range pods {
		pods[i].Spec.NodeName = "n"
		pods[i].UID = types.UID("uid-" + pods[i].Name)
		builder = builder.WithObjects(&pods[i])
	}
	builder = builder.WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o client.Object, sub client.Object, _ ...client.SubResourceCreateOption) error {
			mu.Lock()
			*asked = append(*asked, sub.(*policyv1.Eviction))
			mu.Unlock()
			return answer(o.GetName())
		},
	})
	c := builder.Build()
	return &Drainer{Client: c, Reader: c}
}

func tooMany() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget b needs 1 healthy pods and has 1 currently"}}
	return err
}

// reading returns a reader whose Get returns a pod with the UID now. With the empty UID, Get returns the pod unchanged; with the
// UID "none", it returns NotFound.
func reading(c client.Client, now types.UID) client.Reader {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if now == "none" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
			}
			err := c.Get(ctx, key, o, opts...)
			if now != "" {
				o.SetUID(now)
			}
			return err
		},
	})
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// testNode is a node with pods and volumes. A pod is deleted as soon as its eviction is granted.
type testNode struct {
	t      *testing.T
	client client.Client
	mu     sync.Mutex
	asked  []string
	// answer returns the API server's answer to an eviction. When answer is nil, every eviction is granted.
	answer func(ctx context.Context, pod string) error
}

func newTestNode(t *testing.T, objects ...client.Object) *testNode {
	t.Helper()
	node := &testNode{t: t}
	node.client = indexed().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			node.mu.Lock()
			node.asked = append(node.asked, o.GetName())
			node.mu.Unlock()
			if node.answer != nil {
				return node.answer(ctx, o.GetName())
			}
			return c.Delete(ctx, o)
		},
	}).Build()
	return node
}

func (node *testNode) drainer() *Drainer { return &Drainer{Client: node.client, Reader: node.client} }

// evictions returns the names of the pods whose evictions were requested since the last call, sorted.
func (node *testNode) evictions() []string {
	node.mu.Lock()
	defer node.mu.Unlock()
	asked := node.asked
	node.asked = nil
	slices.Sort(asked)
	return asked
}

func (node *testNode) detach(volume string) {
	node.t.Helper()
	if err := node.client.Delete(node.t.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "n-" + volume}}); err != nil {
		node.t.Fatal(err)
	}
}

// withVolume returns a pod on the node, its volume claim, and the attachment of its volume.
func withVolume(name string, mode corev1.PersistentVolumeAccessMode) []client.Object {
	p := pod(name)
	p.Spec.NodeName = "n"
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim-" + name}}}}
	return []client.Object{&p,
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim-" + name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name, AccessModes: []corev1.PersistentVolumeAccessMode{mode}}},
		attachment("n", "pv-"+name),
	}
}

func attachment(node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + volume},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
}

func plain(name string) client.Object {
	p := pod(name)
	p.Spec.NodeName = "n"
	return &p
}

func pod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func ofDaemonSet(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
}

func mirror(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func failed(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

func ending(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }

func withPriority(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &n }
}
