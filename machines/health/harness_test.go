package health

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// stores implements client.Client with informer stores. Reads return the stored objects without copying them, as reads from
// controller-runtime's cache can do. Writes succeed and have no effect.
type stores struct {
	client.Client
	machines, nodes, sets, deployments cache.Indexer
}

func newStores() *stores {
	store := func() cache.Indexer { return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}) }
	return &stores{machines: store(), nodes: store(), sets: store(), deployments: store()}
}

// Patch returns no error and changes nothing.
func (*stores) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}

// Status returns a status writer whose writes succeed and have no effect.
func (*stores) Status() client.SubResourceWriter { return forgetful{} }

func (*stores) GroupVersionKindFor(runtime.Object) (schema.GroupVersionKind, error) {
	return v1alpha1.MachineDeploymentKind, nil
}

type forgetful struct{ client.SubResourceWriter }

func (forgetful) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return nil
}

// quiet is an Event recorder that drops all Events.
type quiet struct{ recorder.EventRecorder }

func (quiet) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// door implements cluster.Cluster. Its clients read the stores.
type door struct {
	cluster.Cluster
	stores *stores
}

func (d door) GetClient() client.Client                       { return d.stores }
func (d door) GetAPIReader() client.Reader                    { return d.stores }
func (d door) GetEventRecorder(string) recorder.EventRecorder { return quiet{} }

func (s *stores) byType(o runtime.Object) cache.Indexer {
	switch o.(type) {
	case *v1alpha1.MachineList, *v1alpha1.Machine:
		return s.machines
	case *corev1.NodeList, *corev1.Node:
		return s.nodes
	case *v1alpha1.MachineSetList, *v1alpha1.MachineSet:
		return s.sets
	}
	return s.deployments
}

// List returns all stored objects of the list's type.
func (s *stores) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	stored := s.byType(list).List()
	objects := make([]runtime.Object, 0, len(stored))
	for _, o := range stored {
		objects = append(objects, o.(runtime.Object))
	}
	return meta.SetList(list, objects)
}

// fill adds groups of Machines with Nodes to the stores: each group is one MachineDeployment with one set.
func (s *stores) fill(b testing.TB, groups, each int) {
	b.Helper()
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	for g := range groups {
		name := fmt.Sprintf("group-%d", g)
		d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{v1alpha1.AnnotationRevision: "1"}}}
		d.Spec.Replicas = new(int32(each))
		set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1", UID: types.UID(name + "-1"), Annotations: d.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)}}}
		for _, err := range []error{s.deployments.Add(d), s.sets.Add(set)} {
			if err != nil {
				b.Fatal(err)
			}
		}
		for i := range each {
			s.machine(b, set, fmt.Sprintf("%s-1-%d", name, i), long)
		}
	}
}

func (s *stores) machine(b testing.TB, set *v1alpha1.MachineSet, name string, since metav1.Time) {
	b.Helper()
	uid := types.UID("uid-" + name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "node-" + uid, Labels: map[string]string{
		v1alpha1.LabelOwnedBy: string(uid), corev1.LabelTopologyZone: "zone", corev1.LabelHostname: name,
	}}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, "KernelDeadlock", "NetworkUnavailable"} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: since})
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: since})
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)},
			Labels: map[string]string{"group": set.Name}, Annotations: map[string]string{"a": "b"}},
		Status: v1alpha1.MachineStatus{
			NodeRef: &corev1.ObjectReference{Name: name, UID: node.UID}, Phase: ptr.To(v1alpha1.PhaseRunning), NodeMarks: &v1alpha1.NodeMarks{Started: true},
			Conditions: []v1alpha1.MachineCondition{
				{Type: v1alpha1.ConditionServerReady, Status: corev1.ConditionTrue, Reason: "ServerActive", LastTransitionTime: &since},
				{Type: v1alpha1.ConditionSpecValid, Status: corev1.ConditionTrue, LastTransitionTime: &since},
				{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: &since},
			},
		},
	}
	for _, err := range []error{s.nodes.Add(node), s.machines.Add(m)} {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// newPasses returns a health controller and its clock. The controller reads the stores.
func newPasses(b testing.TB, s *stores) (*Reconciler, *testclock.FakePassiveClock) {
	b.Helper()
	now := testclock.NewFakePassiveClock(time.Now())
	r, err := New(Options{Control: door{stores: s}, Target: door{stores: s}, Clock: now, Settings: verdict.Settings{
		Timeout: 10 * time.Minute, MaxReplacing: intstr.FromInt32(1), MaxUnhealthy: 40, Join: 10 * time.Minute,
		Conditions: []corev1.NodeConditionType{"KernelDeadlock", "ReadonlyFilesystem", corev1.NodeDiskPressure, corev1.NodeNetworkUnavailable},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return r, now
}
