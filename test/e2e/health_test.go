//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const ailing = "ailing"

// TestMachinesAreReplacedByTheHealthCheckOrOnRequest deletes a Node object, and expects a replacement. The Node's kubelet runs on and does not register
// again.
func TestMachinesAreReplacedByTheHealthCheckOrOnRequest(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, BootTime: time.Second, NoAutoscaler: true, DroverFlags: []string{"--health-timeout=15s"}})
	d, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	group := badGroup{name: ailing, replicas: "3", old: "  selector:", new: "  selector:"}
	apply(t, s, ailing, group.manifest(t, d))
	eventually(t, takingPods(s, 3, ""))
	t.Run("a Machine whose Node a user deleted is replaced, and its record blocks no further replacement (MCM-45, MCM-46, MCM-69)", func(t *testing.T) {
		sick := deleteNode(t, s)
		eventually(t, shownUnhealthy(s, sick))
		eventually(t, gone(s, sick))
		eventually(t, takingPods(s, 3, ""))
	})
	t.Run("a healthy Machine is replaced when an operator requests that by annotation (CAPI-50)", func(t *testing.T) {
		var machines v1alpha1.MachineList
		if err := s.Client.List(t.Context(), &machines); err != nil {
			t.Fatal(err)
		}
		m := &machines.Items[0]
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationReplace)
		if err := s.Client.Patch(t.Context(), m, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
		eventually(t, gone(s, m.Name))
		eventually(t, takingPods(s, 3, ""))
	})
}

// deleteNode deletes one of the Nodes and returns its name.
func deleteNode(t *testing.T, s *sandbox.Sandbox) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := s.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	n := &nodes.Items[0]
	if err := s.Client.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// shownUnhealthy waits until the Machine says that its Node is missing.
func shownUnhealthy(s *sandbox.Sandbox, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		m := &v1alpha1.Machine{}
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: name}, m); err != nil {
			return "", err
		}
		for _, c := range m.Status.Conditions {
			if c.Type == v1alpha1.ConditionHealthy && c.Status == corev1.ConditionFalse && c.Reason == "NodeMissing" {
				return "", nil
			}
		}
		return fmt.Sprintf("condition Healthy False of Machine %s: %+v", name, m.Status.Conditions), nil
	}
}

// gone waits until the Machine, its Node and its server are deleted.
func gone(s *sandbox.Sandbox, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		for _, o := range []client.Object{&v1alpha1.Machine{}, &corev1.Node{}} {
			key := types.NamespacedName{Name: name}
			if _, ok := o.(*v1alpha1.Machine); ok {
				key.Namespace = metav1.NamespaceSystem
			}
			if err := s.Client.Get(ctx, key, o); client.IgnoreNotFound(err) != nil {
				return "", err
			} else if err == nil {
				return fmt.Sprintf("the end of %T %s", o, name), nil
			}
		}
		for _, server := range s.Cloud.Servers() {
			if server.Name == name {
				return "the end of server " + name, nil
			}
		}
		return "", nil
	}
}
