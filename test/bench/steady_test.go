package bench

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	eventrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
)

// still is a cluster in which nothing happens. Its caches hold the given objects, and its API server returns empty lists.
type still struct {
	cluster.Cluster
	objects map[reflect.Type][]client.Object
}

func (s still) GetCache() cache.Cache                               { return stillCache{objects: s.objects} }
func (s still) GetAPIReader() client.Reader                         { return nothing{} }
func (s still) GetClient() client.Client                            { return nil }
func (s still) GetEventRecorder(string) eventrecorder.EventRecorder { return nil }
func (s still) add(o client.Object) {
	s.objects[reflect.TypeOf(o)] = append(s.objects[reflect.TypeOf(o)], o)
}
func (c stillCache) of(o client.Object) []client.Object                             { return c.objects[reflect.TypeOf(o)] }
func (nothing) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

type stillCache struct {
	cache.Cache
	objects map[reflect.Type][]client.Object
}

// GetInformer returns an informer that delivers all objects immediately and nothing afterwards.
func (c stillCache) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return stillInformer{objects: c.of(o)}, nil
}

type stillInformer struct {
	cache.Informer
	objects []client.Object
}

func (i stillInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	for _, o := range i.objects {
		h.OnAdd(o, true)
	}
	return synced{}, nil
}

type synced struct {
	toolscache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }

// nothing is an API server without objects and events.
type nothing struct{}

func (nothing) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// steady returns node groups that do not change during the benchmark, and their nodes.
func steady(t testing.TB, nodes, groups int) (*nodegroup.Groups, []*corev1.Node) {
	t.Helper()
	s := still{objects: map[reflect.Type][]client.Object{}}
	var all []*corev1.Node
	for g := range groups {
		all = append(all, s.pool(fmt.Sprintf("pool-%03d", g), nodes/groups, 0, 2*nodes/groups)...)
	}
	return s.groups(t), all
}

// groups returns the node groups of the cluster, which run until the test ends.
func (s still) groups(t testing.TB) *nodegroup.Groups {
	t.Helper()
	steady := nodegroup.New(nodegroup.Options{Control: s, Target: s, Discovery: model.Discovery{Cloud: provider.Provider{}}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- steady.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-steady.Synced()
	return steady
}

// pool adds a group with the given size and bounds, and returns its nodes.
func (s still) pool(name string, size, low, high int) []*corev1.Node {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1"}
	}
	d := &v1alpha1.MachineDeployment{ObjectMeta: meta(name)}
	d.Annotations = map[string]string{v1alpha1.AnnotationsMinSize[0]: strconv.Itoa(low), v1alpha1.AnnotationsMaxSize[0]: strconv.Itoa(high)}
	d.Spec.Replicas = ptr.To(int32(size))
	s.add(d)
	set := &v1alpha1.MachineSet{ObjectMeta: meta(name + "-1")}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)}
	s.add(set)
	var nodes []*corev1.Node
	for i := range size {
		m := &v1alpha1.Machine{ObjectMeta: meta(fmt.Sprintf("%s-%05d", name, i))}
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)}
		m.Spec.ProviderID = ptr.To("openstack:///" + string(uuid.NewUUID()))
		m.Status.NodeRef = &corev1.ObjectReference{Name: m.Name}
		n := &corev1.Node{ObjectMeta: meta(m.Name), Spec: corev1.NodeSpec{ProviderID: *m.Spec.ProviderID}}
		n.Namespace = ""
		s.add(m)
		s.add(n)
		nodes = append(nodes, n)
	}
	return nodes
}
