package drain

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// indexed is a cluster in memory with the indexes that a drain asks for.
func indexed() *fake.ClientBuilder {
	return fake.NewClientBuilder().
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&storagev1.VolumeAttachment{}, IndexNode, func(o client.Object) []string { return []string{AttachmentNode(o)} }).
		WithIndex(&storagev1.VolumeAttachment{}, IndexVolume, func(o client.Object) []string { return []string{AttachmentVolume(o)} })
}

// answering makes a Drainer whose API server answers evictions as told, and keeps what it was asked.
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

func TestPass(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	status := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
	}
	conflict := apierrors.NewConflict(resource, "p", errors.New("the UID in the precondition (uid-p) does not match the UID in record (other)"))
	tests := []struct {
		name   string
		answer error
		// now is the UID of the pod that a live read finds: "" for that of the pod itself, "none" for no pod.
		now     types.UID
		blocked string
		fails   bool
	}{
		{name: "an eviction that is granted"},
		{name: "CAPI-38 MC-60 a budget's refusal is told in its own words", answer: tooMany(), blocked: "The disruption budget b needs 1 healthy pods and has 1 currently"},
		{name: "a pod that is gone counts as gone", answer: apierrors.NewNotFound(resource, "p"), now: "none"},
		{name: "CAPI-40 MCM-64 a pod of the same name that came later counts as gone", answer: conflict, now: "other"},
		{name: "a refusal of any other kind is told too", answer: apierrors.NewForbidden(resource, "p", errors.New("namespace is being terminated")), blocked: `pods "p" is forbidden: namespace is being terminated`},
		{name: "two budgets: a 500 without a reason (F-22)", answer: status(500, "This pod has more than one PodDisruptionBudget."), blocked: "This pod has more than one PodDisruptionBudget."},
		{name: "an answer without a message is shown by its code (F-22)", answer: status(503, ""), blocked: "the API server answered 503"},
		{name: "a 404 for a pod that exists, such as a proxy's (F-22)", answer: status(404, "default backend - 404"), blocked: "default backend - 404"},
		{name: "a 409 for a pod that exists (F-22)", answer: conflict, blocked: conflict.ErrStatus.Message},
		{name: "a 422 (F-22)", answer: status(422, "Eviction.policy is invalid"), blocked: "Eviction.policy is invalid"},
		{name: "a 429 of an overloaded API server (F-22)", answer: status(429, "too many requests"), blocked: "too many requests"},
		{name: "MCM-66 no answer at all is an error and no success", answer: errors.New("connection refused"), blocked: noAnswer, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []*policyv1.Eviction
			d := answering(func(string) error { return tt.answer }, &asked, pod("p"))
			d.Reader = reading(d.Client, tt.now)
			got, err := d.Pass(t.Context(), Order{Node: "n"}, time.Unix(0, 0))
			if (err != nil) != tt.fails {
				t.Fatalf("error: %v", err)
			}
			if got.Done || got.Remaining != 1 || (len(got.Blocked) == 1) != (tt.blocked != "") {
				t.Errorf("result: %+v", got)
			}
			if tt.blocked != "" && (got.Blocked[0].Reason != tt.blocked || got.Blocked[0].Pod != "ns/p") {
				t.Errorf("blocked: %+v", got.Blocked)
			}
			if len(asked) != 1 || *asked[0].DeleteOptions.Preconditions.UID != "uid-p" || asked[0].DeleteOptions.GracePeriodSeconds != nil {
				t.Errorf("asked: %+v", asked)
			}
		})
	}
}

// reading returns a reader that shows another UID for a pod that is read by name, or no pod.
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

func TestOnePodDoesNotKeepTheOthers(t *testing.T) {
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "two budgets"}}
	for name, answer := range map[string]error{"a 500 (F-22)": refusal, "no answer (F-22)": errors.New("EOF")} {
		t.Run("every pod is asked although one eviction gets "+name, func(t *testing.T) {
			var asked []*policyv1.Eviction
			d := answering(func(pod string) error {
				if pod == "b" {
					return answer
				}
				return nil
			}, &asked, pod("a"), pod("b"), pod("c"))
			got, _ := d.Pass(t.Context(), Order{Node: "n"}, time.Unix(0, 0))
			if len(asked) != 3 || len(got.Blocked) != 1 || got.Blocked[0].Pod != "ns/b" || got.Remaining != 3 || got.Done {
				t.Errorf("%d asked, result %+v", len(asked), got)
			}
		})
	}
	for name, answer := range map[string]error{"a 500 (F-22)": refusal, "no answer (F-22)": errors.New("EOF")} {
		t.Run("in abrupt mode a pass ends although evictions get "+name, func(t *testing.T) {
			var asked []*policyv1.Eviction
			d := answering(func(string) error { return answer }, &asked, pod("a"))
			got, err := d.Pass(t.Context(), Order{Node: "n", Mode: Mode{Abrupt: true}}, time.Unix(0, 0))
			if err != nil || !got.Done || len(got.Blocked) != 1 {
				t.Errorf("result %+v, error %v", got, err)
			}
		})
	}
}

func TestPassOnAnUnreachableNode(t *testing.T) {
	t.Run("CAPI-39 pods get one second and nobody waits for them", func(t *testing.T) {
		var asked []*policyv1.Eviction
		d := answering(func(string) error { return nil }, &asked, pod("p"))
		got, err := d.Pass(t.Context(), Order{Node: "n", Mode: Mode{Abrupt: true}}, time.Unix(0, 0))
		if err != nil || !got.Done || len(asked) != 1 || *asked[0].DeleteOptions.GracePeriodSeconds != 1 {
			t.Errorf("result %+v, error %v, asked %+v", got, err, asked)
		}
	})
	t.Run("MCM-56 a budget cannot keep alive what is dead", func(t *testing.T) {
		var asked []*policyv1.Eviction
		d := answering(func(string) error { return tooMany() }, &asked, pod("p"))
		if got, err := d.Pass(t.Context(), Order{Node: "n", Mode: Mode{Abrupt: true}}, time.Unix(0, 0)); err != nil || !got.Done || len(got.Blocked) != 1 {
			t.Errorf("result %+v, error %v", got, err)
		}
	})
}

func TestCordon(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}}}
	patches := 0
	c := fake.NewClientBuilder().WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	read := func() *corev1.Node {
		n := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("CAPI-37 CA-C81 one patch cordons, taints and excludes, and leaves the autoscaler's taint", func(t *testing.T) {
		stale := read()
		for range 2 {
			if _, err := Cordon(t.Context(), c, read()); err != nil {
				t.Fatal(err)
			}
		}
		n := read()
		_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
		if patches != 1 || !n.Spec.Unschedulable || !excluded || len(n.Spec.Taints) != 2 || n.Spec.Taints[1].Key != v1alpha1.TaintDeleting {
			t.Errorf("%d patches, node %+v", patches, n)
		}
		if _, err := Cordon(t.Context(), c, stale); !apierrors.IsConflict(err) {
			t.Errorf("a stale node was written over: %v", err)
		}
	})
	t.Run("a taint of the same key with another effect does not stand for drover's (F-47)", func(t *testing.T) {
		n := read()
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintDeleting, Effect: corev1.TaintEffectPreferNoSchedule}}
		if err := c.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, err := Cordon(t.Context(), c, read()); err != nil {
			t.Fatal(err)
		}
		if got := read().Spec.Taints; len(got) != 2 || got[1].Effect != corev1.TaintEffectNoSchedule {
			t.Errorf("taints %v", got)
		}
	})
}
