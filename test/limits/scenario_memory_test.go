//go:build cluster

package limits

import (
	"context"
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var (
	limit  = flag.Int("memory", 512, "the limit of drover's memory in MiB")
	binary = flag.String("drover", "", "the path of drover's binary; empty: it is built from this module")
)

// Sizes of the attacks.
const (
	connections  = 600
	headers      = 1 << 20
	bigCalls     = 14
	bigBody      = 60 << 20
	fatMachines  = 600
	fatSpec      = 1200 << 10
	manyReplicas = 100000
	// firstThousand is how many Machines a set makes before one of them has a server.
	firstThousand = 1000
)

func TestDroverWorksWithin512MiB(t *testing.T) {
	w := newWorld(t)
	w.check(t)
	t.Run("600 connections with 1 MiB of headers on each of the two HTTP ports neither exhaust drover's memory nor delay a probe (F-90)", func(t *testing.T) {
		flood(t, w.health, connections, headers)
		flood(t, w.MetricsAddress(), connections, headers)
		w.check(t)
	})
	t.Run("14 calls of 60 MiB with the autoscaler's certificate are refused, and as many of nearly 8 MiB are answered (F-98)", func(t *testing.T) {
		if n := calls(t, w.dial(t), bigCalls, bigBody); n != bigCalls {
			t.Errorf("%d of %d calls were refused because of their size", n, bigCalls)
		}
		if n := calls(t, w.dial(t), bigCalls, 8<<20-1<<10); n != 0 {
			t.Errorf("%d calls of nearly 8 MiB were refused because of their size", n)
		}
		w.check(t)
	})
	t.Run("a set of size 100000 makes no second thousand of Machines while the cloud gives no server (F-96)", w.testManyReplicas)
	t.Run("the API server refuses a Machine with a provider spec of 1.2 MB (F-96)", func(t *testing.T) {
		if err := w.Client.Create(t.Context(), w.fat(0, fatSpec)); err == nil || !strings.Contains(err.Error(), "65536") {
			t.Errorf("got %v, want a refusal that names the limit", err)
		}
	})
	t.Run("600 Machines with provider specs of 1.2 MB, stored without the policies, do not exhaust drover's memory, nor do they at its start (F-96)", w.testFatMachines)
}

func (w *world) testManyReplicas(t *testing.T) {
	d := w.template.DeepCopy()
	d.Spec.Replicas = ptr.To[int32](manyReplicas)
	must(t, w.Client.Create(t.Context(), d))
	w.until("the set reports that no server is made", func(ctx context.Context) bool {
		var sets v1alpha1.MachineSetList
		must(t, w.Client.List(ctx, &sets))
		return len(sets.Items) == 1 && strings.Contains(ptr.Deref(sets.Items[0].Status.ErrorMessage, ""), "has a server")
	})
	if n := w.listed(t); n != firstThousand {
		t.Errorf("there are %d Machines, want %d", n, firstThousand)
	}
	w.check(t)
}

// testFatMachines removes the policies, as in a cluster without them, and stores fat Machines.
func (w *world) testFatMachines(t *testing.T) {
	policies, err := deploy.Objects("policies")
	must(t, err)
	for _, o := range policies {
		must(t, w.Client.Delete(t.Context(), o))
	}
	w.until("the policies have no effect any more", func(ctx context.Context) bool {
		return w.Client.Create(ctx, w.fat(0, fatSpec)) == nil
	})
	w.fatten(t)
	if n := w.listed(t); n != firstThousand+fatMachines {
		t.Errorf("there are %d Machines, want %d", n, firstThousand+fatMachines)
	}
	w.check(t)
	w.KillDrover(0)
	must(t, w.ReviveDrover(t.Context(), 0))
	w.check(t)
}

// listed returns how many Machines the API server has.
func (w *world) listed(t *testing.T) int {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.MachineKind)
	must(t, w.Client.List(t.Context(), list, client.InNamespace(w.template.Namespace)))
	return len(list.Items)
}

// fatten creates the fat Machines from the second on, some at a time.
func (w *world) fatten(t *testing.T) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := next.Add(1); n < fatMachines; n = next.Add(1) {
				if err := w.Client.Create(t.Context(), w.fat(int(n), fatSpec)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
