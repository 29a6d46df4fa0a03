package ownership

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// woken is a work queue that records the enqueued requests and the last delay.
type woken struct {
	Queue
	names []string
	after time.Duration
}

func (w *woken) AddAfter(r ctrl.Request, after time.Duration) {
	w.names, w.after = append(w.names, r.Name), after
}

// possibleOwners lists two MachineSets of the namespace ns, or fails.
type possibleOwners struct{ fail bool }

func (possibleOwners) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no object is read by its name")
}

func (p possibleOwners) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	if p.fail || !slices.Contains(options, client.ListOption(client.InNamespace("ns"))) {
		return errors.New("no")
	}
	for _, name := range []string{"fits", "fits-not"} {
		sets := list.(*v1alpha1.MachineSetList)
		sets.Items = append(sets.Items, v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	}
	return nil
}

func owned(kind, name string) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fits-m"}}
	if name != "" {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
	}
	return m
}

func TestEventsOfAnObjectEnqueueItsOwners(t *testing.T) {
	for _, c := range []struct {
		name        string
		before, now *v1alpha1.Machine
		fails       bool
		want        []string
	}{
		{name: "enqueues the owner of a new object", now: owned("Set", "x"), want: []string{"x"}},
		{name: "enqueues no owner for an object whose controller is of a kind that the handler does not enqueue", now: owned("Other", "x")},
		{name: "enqueues the owners for which an object without a controller was made, by its name", now: owned("", ""), want: []string{"fits"}},
		{name: "enqueues no owner when the possible owners cannot be listed", now: owned("", ""), fails: true},
		{name: "enqueues an owner only once when an update of the object does not change the owner", before: owned("Set", "x"), now: owned("Set", "x"), want: []string{"x"}},
		{name: "enqueues the previous and the new owner when the owner of an object changes", before: owned("Set", "x"), now: owned("Set", "y"), want: []string{"x", "y"}},
		{name: "enqueues the former owner of a released object, and the owners for which it was made", before: owned("Set", "x"), now: owned("", ""), want: []string{"x", "fits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &woken{}
			h := Events[*v1alpha1.Machine]{Kind: "Set", Gather: time.Second, Reader: possibleOwners{c.fails}, Owners: &v1alpha1.MachineSetList{}, MadeFor: v1alpha1.IsMachineNameOf}.Handler()
			if c.before != nil {
				h.Update(t.Context(), event.TypedUpdateEvent[*v1alpha1.Machine]{ObjectOld: c.before, ObjectNew: c.now}, q)
			} else {
				h.Create(t.Context(), event.TypedCreateEvent[*v1alpha1.Machine]{Object: c.now}, q)
			}
			if !slices.Equal(q.names, c.want) || len(c.want) > 0 && q.after != time.Second {
				t.Errorf("enqueued %v after %s, want %v", q.names, q.after, c.want)
			}
		})
	}
}

func TestADeletedObjectEnqueuesItsOwnerOnlyWhenTheHandlerIsForTheOwnersKind(t *testing.T) {
	var told []string
	h := Events[*v1alpha1.Machine]{
		Kind: "Set", Reader: possibleOwners{fail: true}, Owners: &v1alpha1.MachineSetList{},
		Gone: func(owner types.NamespacedName, m *v1alpha1.Machine) { told = append(told, owner.String()+" "+m.Name) },
	}.Handler()
	q := &woken{}
	for _, m := range []*v1alpha1.Machine{owned("Set", "x"), owned("Other", "x"), owned("", "")} {
		h.Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.Machine]{Object: m}, q)
	}
	if !slices.Equal(told, []string{"ns/x fits-m"}) || !slices.Equal(q.names, []string{"x"}) {
		t.Errorf("Gone was called with %v, enqueued %v", told, q.names)
	}
}

var _ workqueue.TypedRateLimitingInterface[ctrl.Request] = &woken{}
