package drain

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestADrainWaitsForReadWriteOnceVolumes(t *testing.T) {
	order := Order{Node: "n", VolumeTimeout: 5 * time.Minute}
	round := func(t *testing.T, node *testNode, m *memory, after time.Duration) Result {
		t.Helper()
		result, err := node.drainer().round(t.Context(), order, m, noon.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	t.Run("pods with ReadWriteOnce volumes are evicted one by one, each once the previous pod's volume is detached (MCM-59)", func(t *testing.T) {
		node, m := newTestNode(t, append(append(withVolume("db-1", corev1.ReadWriteOnce), withVolume("db-2", corev1.ReadWriteOnce)...), plain("app"))...), newMemory()
		round(t, node, m, 0)
		if got := node.evictions(); !slices.Equal(got, []string{"app", "db-1"}) {
			t.Fatalf("first round: evictions of %v, want app and db-1", got)
		}
		if r := round(t, node, m, time.Minute); len(node.evictions()) != 0 || !slices.Equal(r.Leaving, []string{"ns/db-2"}) || !slices.Equal(r.Detaching, []string{"pv-db-1"}) {
			t.Errorf("Round() while the volume is attached = %+v", r)
		}
		node.detach("pv-db-1")
		round(t, node, m, 2*time.Minute)
		if got := node.evictions(); !slices.Equal(got, []string{"db-2"}) {
			t.Errorf("evictions of %v after the volume was detached, want db-2", got)
		}
		if r := round(t, node, m, 3*time.Minute); !r.Done || !slices.Equal(r.Detaching, []string{"pv-db-2"}) {
			t.Errorf("last Round() = %+v, want Done with the last volume", r)
		}
	})
	t.Run("the drain waits at most five minutes for the detachment of a volume (MC-61)", func(t *testing.T) {
		node, m := newTestNode(t, append(withVolume("db-1", corev1.ReadWriteOnce), withVolume("db-2", corev1.ReadWriteOnce)...)...), newMemory()
		round(t, node, m, 0)
		round(t, node, m, time.Second)
		node.evictions()
		round(t, node, m, time.Second+5*time.Minute)
		if got := node.evictions(); !slices.Equal(got, []string{"db-2"}) {
			t.Errorf("evictions of %v after the timeout, want db-2", got)
		}
	})
	t.Run("the drain does not wait for ReadWriteMany volumes or for volumes that are not attached to the node (MCM-61)", func(t *testing.T) {
		objects := append(withVolume("web-1", corev1.ReadWriteMany), withVolume("web-2", corev1.ReadWriteMany)...)
		local := withVolume("local", corev1.ReadWriteOnce)
		node := newTestNode(t, append(objects, local[0], local[1], attachment("elsewhere", "pv-old"), attachment("n", "pv-old"))...)
		round(t, node, newMemory(), 0)
		if got := node.evictions(); !slices.Equal(got, []string{"local", "web-1", "web-2"}) {
			t.Errorf("evictions of %v", got)
		}
	})
	t.Run("the drain waits for a volume whose attachment the watch does not show yet", func(t *testing.T) {
		node, m := newTestNode(t, withVolume("db", corev1.ReadWriteOnce)...), newMemory()
		late := interceptor.NewClient(node.client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, attachments := list.(*storagev1.VolumeAttachmentList); attachments {
					return nil
				}
				return c.List(ctx, list, opts...)
			},
		})
		round := func(after time.Duration) Result {
			t.Helper()
			result, err := (&Drainer{Client: late, Reader: node.client}).round(t.Context(), order, m, noon.Add(after))
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		round(0)
		if r := round(time.Second); !r.Done || !slices.Equal(r.Detaching, []string{"pv-db"}) {
			t.Errorf("Round() while the volume is attached = %+v", r)
		}
		node.detach("pv-db")
		if r := round(2 * time.Second); !r.Done || len(r.Detaching) != 0 {
			t.Errorf("Round() after the volume was detached = %+v", r)
		}
	})
	t.Run("the drain does not wait for the volume of a DaemonSet's pod, because the pod stays on the node", func(t *testing.T) {
		objects := withVolume("agent", corev1.ReadWriteOnce)
		objects[0].SetOwnerReferences([]metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}})
		if r := round(t, newTestNode(t, objects...), newMemory(), 0); !r.Done || len(r.Detaching) != 0 {
			t.Errorf("%+v", r)
		}
	})
}
