package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// cached returns an object as drover's caches hold it.
func cached[O client.Object](t *testing.T, o O) O {
	t.Helper()
	out, err := cacheOptions().DefaultTransform(o)
	must(t, err)
	return out.(O)
}

func TestWhatTheCachesDrop(t *testing.T) {
	metadata := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "kept": "true"},
		}
	}
	spec := func(bytes int) v1alpha1.MachineSpec {
		return v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"a":"` + strings.Repeat("x", bytes) + `"}`)}}}
	}
	large := spec(100 << 10)
	t.Run("every kind loses its managed fields and the copy that kubectl apply has left, and no other annotation (F-96)", func(t *testing.T) {
		for _, o := range []client.Object{
			cached(t, &v1alpha1.Machine{ObjectMeta: metadata()}), cached(t, &v1alpha1.MachineSet{ObjectMeta: metadata()}), cached(t, &v1alpha1.MachineDeployment{ObjectMeta: metadata()}),
			cached(t, &v1alpha1.MachineClass{ObjectMeta: metadata()}), cached(t, &v1alpha1.Cluster{ObjectMeta: metadata()}), cached(t, &corev1.Node{ObjectMeta: metadata()}),
		} {
			if len(o.GetManagedFields()) > 0 || len(o.GetAnnotations()) != 1 {
				t.Errorf("%T has %v and %v", o, o.GetManagedFields(), o.GetAnnotations())
			}
		}
	})
	t.Run("a deployment keeps who wrote its size and its template, and nothing else of the managed fields (F-164)", func(t *testing.T) {
		d := &v1alpha1.MachineDeployment{}
		for manager, raw := range map[string]string{
			"argocd": `{"f:metadata":{"f:labels":{}},"f:spec":{"f:template":{"f:spec":{"f:versions":{}}},"f:selector":{}}}`,
			"hpa":    `{"f:spec":{"f:replicas":{}}}`, "drover": `{"f:status":{"f:replicas":{}}}`,
		} {
			d.ManagedFields = append(d.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(raw)})
		}
		for range 2 { // the transformation may run again on an object
			d = cached(t, d)
			size, template := ownership.WriterOf(d, ownership.FieldReplicas), ownership.WriterOf(d, ownership.FieldTemplate)
			if len(d.ManagedFields) != 2 || size != "hpa" || template != "argocd" {
				t.Errorf("%q wrote the size and %q the template: %v", size, template, d.ManagedFields)
			}
		}
	})
	t.Run("a provider spec of 100 KiB is dropped from a Machine without a server, and from templates (F-96)", func(t *testing.T) {
		set, d := &v1alpha1.MachineSet{}, &v1alpha1.MachineDeployment{}
		set.Spec.Template.Spec, d.Spec.Template.Spec = *large.DeepCopy(), *large.DeepCopy()
		for _, s := range []v1alpha1.MachineSpec{
			cached(t, &v1alpha1.Machine{Spec: *large.DeepCopy()}).Spec, cached(t, set).Spec.Template.Spec, cached(t, d).Spec.Template.Spec,
			cached(t, &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{ProviderConfig: large.DeepCopy().ProviderSpec.DeepCopy()}}).Spec,
		} {
			if n := len(s.Document().Raw); n > 200 {
				t.Errorf("%d bytes are left", n)
			}
		}
	})
	t.Run("the provider spec of a Machine that has a server is kept whatever its size, so that the server can be deleted (F-96)", func(t *testing.T) {
		named, recorded := &v1alpha1.Machine{Spec: *large.DeepCopy()}, &v1alpha1.Machine{Spec: *large.DeepCopy()}
		named.Spec.ProviderID = ptr.To("openstack:///a")
		recorded.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte("{}")}
		for _, m := range []*v1alpha1.Machine{cached(t, named), cached(t, recorded)} {
			if len(m.Spec.Document().Raw) != len(large.Document().Raw) {
				t.Errorf("%d bytes are left", len(m.Spec.Document().Raw))
			}
		}
	})
	t.Run("a provider spec of 60 KiB is kept", func(t *testing.T) {
		small := spec(60 << 10)
		if m := cached(t, &v1alpha1.Machine{Spec: *small.DeepCopy()}); len(m.Spec.Document().Raw) != len(small.Document().Raw) {
			t.Errorf("%d bytes are left", len(m.Spec.Document().Raw))
		}
	})
	t.Run("a Node loses its list of images", func(t *testing.T) {
		node := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}}}
		if cached(t, node); node.Status.Images != nil {
			t.Error("they are kept")
		}
	})
	t.Run("the mark of a deleted object passes unchanged", func(t *testing.T) {
		gone := cache.DeletedFinalStateUnknown{Key: "k"}
		if got, err := slim(gone); err != nil || got != any(gone) {
			t.Errorf("got %v, error %v", got, err)
		}
	})
}

// informed runs an informer in virtual time whose streaming lists are answered by stream, and whose lists have one Node. It calls during once
// the informer has run for longer than a streaming list may be silent. lists counts the lists.
func informed(t *testing.T, stream func(context.Context) (watch.Interface, error), during func(t *testing.T, informer cache.SharedIndexInformer, lists int)) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		informer := cacheOptions().NewInformer(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				lists++
				return &corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "listed"}}}}, nil
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if ptr.Deref(o.SendInitialEvents, false) {
					return stream(ctx)
				}
				return watch.NewFake(), nil
			},
		}, &corev1.Node{}, 0, cache.Indexers{})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		time.Sleep(streamSilence + time.Second)
		synctest.Wait()
		during(t, informer, lists)
		stop()
		running.Wait()
	})
}

func TestAnInformerWhoseStreamingListDoesNotEnd(t *testing.T) {
	for name, stream := range map[string]func(context.Context) (watch.Interface, error){
		"an informer lists when the bookmark that ends its streaming list does not come (F-146)": func(context.Context) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "streamed"}})
			return w, nil
		},
		"an informer lists when its streaming list is not answered (F-146)": func(ctx context.Context) (watch.Interface, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			informed(t, stream, func(t *testing.T, informer cache.SharedIndexInformer, lists int) {
				if names := informer.GetStore().ListKeys(); !informer.HasSynced() || len(names) != 1 || names[0] != "listed" {
					t.Errorf("synced: %v; it has %v after %d lists", informer.HasSynced(), names, lists)
				}
			})
		})
	}
	t.Run("an informer whose streaming list has ended does not list, however long nothing comes afterwards", func(t *testing.T) {
		var w *watch.FakeWatcher
		stream := func(context.Context) (watch.Interface, error) {
			w = watch.NewFakeWithChanSize(2, false)
			w.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "streamed"}})
			w.Action(watch.Bookmark, &corev1.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
			return w, nil
		}
		informed(t, stream, func(t *testing.T, informer cache.SharedIndexInformer, lists int) {
			w.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "later"}})
			synctest.Wait()
			if names := informer.GetStore().ListKeys(); len(names) != 2 || lists != 0 {
				t.Errorf("it has %v after %d lists", names, lists)
			}
		})
	})
}
