package scope

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	openstack "github.com/drover-project/drover/machines/openstack/provider"
)

func TestTheStoreOfScopesForgetsMachinesThatAreGone(t *testing.T) {
	h := newHarness(t)
	gone := map[types.UID]bool{}
	h.store = NewStore(Options{Client: h.client, Clock: h.clock, Provider: openstack.Provider{}, Gone: func(uid types.UID) { gone[uid] = true }})
	const many = 10_000
	remembered := func() (n int) {
		h.store.memory.Each(func(types.NamespacedName, *Memory) { n++ })
		return n
	}
	machine := func(name, uid string) *v1alpha1.Machine {
		return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	}
	t.Run("forgets Machines that disappear without a deletion by drover, and reports each of them as gone (F-12)", func(t *testing.T) {
		for n := range many {
			m := machine(fmt.Sprint(n), fmt.Sprint("uid-", n))
			h.store.Open(m)
			h.store.Forget(client.ObjectKeyFromObject(m))
		}
		if len(gone) != many || remembered() != 0 {
			t.Errorf("Gone was called for %d, %d are remembered; want all and none", len(gone), remembered())
		}
	})
	t.Run("forgets the old Machine when a new Machine has the same name and another UID (F-12)", func(t *testing.T) {
		clear(gone)
		h.store.Open(machine("m", "first"))
		h.store.Open(machine("m", "second"))
		if !gone["first"] || gone["second"] || remembered() != 1 {
			t.Errorf("Gone was called for %v, %d are remembered", gone, remembered())
		}
	})
}
