package set

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// admitting returns a controller whose API server changes each new Machine, as a mutating admission policy does, and a counter of the create
// calls.
func admitting(t *testing.T, change func(*v1alpha1.Machine)) (r *Reconciler, calls *int) {
	t.Helper()
	plain, calls := withClient(t, func(int) error { return nil })
	c := interceptor.NewClient(plain.client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			change(o.(*v1alpha1.Machine))
			return c.Create(ctx, o, opts...)
		},
	})
	return through(plain, c), calls
}

func TestMachinesThatTheAPIServerStoresOtherwiseThanDroverWritesThem(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.Machine)
		calls  int
		err    bool
		text   string
	}{
		{"after a create with other labels, the set creates no further Machine in this reconcile, and the error and an Event name the selector (F-107)",
			func(m *v1alpha1.Machine) { m.Labels["a"] = "platform" }, 1, true, "spec.selector (a=b) does not match them"},
		{"after a create without an owner, the set creates no further Machine in this reconcile, and the error and an Event name the owner (F-107)",
			func(m *v1alpha1.Machine) { m.OwnerReferences = nil }, 1, true, "metadata.ownerReferences: set is not the controller"},
		{"a change that leaves the Machines with the set is reported by an Event, and the set creates all Machines (F-107)",
			func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "1.30.0" }, 5, false, "spec.versions.kubelet: not set → 1.30.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, calls := admitting(t, tt.change)
			err := r.create(t.Context(), testSet(5), 5)
			if *calls != tt.calls || (err != nil) != tt.err || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%d calls, want %d; error %v", *calls, tt.calls, err)
			}
			if event := <-r.events.(*events.FakeRecorder).Events; !strings.Contains(event, "StoredDifferently") || !strings.Contains(event, tt.text) {
				t.Errorf("the Event is %q", event)
			}
		})
	}
}

func TestMachinesThatASetHasLostCountTowardsItsFreeze(t *testing.T) {
	r, _ := withClient(t, func(int) error { return nil })
	set := testSet(2)
	if err := r.create(t.Context(), set, 4); err != nil {
		t.Fatal(err)
	}
	own, err := r.owned(t.Context(), set)
	if err != nil || len(own) != 4 {
		t.Fatalf("%d Machines, error %v", len(own), err)
	}
	for i, change := range []func(m *v1alpha1.Machine){
		func(m *v1alpha1.Machine) { m.Labels, m.OwnerReferences = nil, nil },
		func(m *v1alpha1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "other", UID: "other"}, v1alpha1.MachineSetKind)}
		},
	} {
		m := own[i].DeepCopy()
		change(m)
		if err := r.client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	foreign := newMachine(testSet(1), "x")
	foreign.Name, foreign.OwnerReferences = "set-two-abcde", nil
	if err := r.client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	t.Run("Machines that were made for the set count, whatever their owner and labels are now (F-106)", func(t *testing.T) {
		if lost, err := r.lost(t.Context(), set, observe(set, own[2:], nil, unconfirmed{}, start).machines); err != nil || lost != 2 {
			t.Errorf("%d Machines are lost, want 2; error %v", lost, err)
		}
	})
}
