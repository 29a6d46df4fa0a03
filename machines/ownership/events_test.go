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

func owned(kind, name string) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: map[string]string{"pool": "a"}}}
	if name != "" {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
	}
	return m
}

func TestEventsOfAnObjectEnqueueItsOwners(t *testing.T) {
	selector := func(pool string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
	}
	candidates := []Candidate{{"fits", selector("a")}, {"fits not", selector("b")}, {"selects all", &metav1.LabelSelector{}}}
	for _, c := range []struct {
		name        string
		before, now *v1alpha1.Machine
		fails       bool
		want        []string
	}{
		{name: "enqueues the owner of a new object", now: owned("Set", "x"), want: []string{"x"}},
		{name: "enqueues no owner for an object whose controller is of a kind that the handler does not enqueue", now: owned("Other", "x")},
		{name: "enqueues the owners whose selectors match an object without a controller", now: owned("", ""), want: []string{"fits"}},
		{name: "enqueues no owner when the possible owners cannot be listed", now: owned("", ""), fails: true},
		{name: "enqueues an owner only once when an update of the object does not change the owner", before: owned("Set", "x"), now: owned("Set", "x"), want: []string{"x"}},
		{name: "enqueues the previous and the new owner when the owner of an object changes", before: owned("Set", "x"), now: owned("Set", "y"), want: []string{"x", "y"}},
		{name: "enqueues the former owner of a released object, and the owners whose selectors match the object", before: owned("Set", "x"), now: owned("", ""), want: []string{"x", "fits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &woken{}
			h := Events[*v1alpha1.Machine]{Kind: "Set", Gather: time.Second, Candidates: func(_ context.Context, namespace string) ([]Candidate, error) {
				if c.fails || namespace != "ns" {
					return nil, errors.New("no")
				}
				return candidates, nil
			}}.Handler()
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
		Kind: "Set", Candidates: func(context.Context, string) ([]Candidate, error) { return nil, nil },
		Gone: func(owner types.NamespacedName, m *v1alpha1.Machine) { told = append(told, owner.String()+" "+m.Name) },
	}.Handler()
	q := &woken{}
	for _, m := range []*v1alpha1.Machine{owned("Set", "x"), owned("Other", "x"), owned("", "")} {
		h.Delete(t.Context(), event.TypedDeleteEvent[*v1alpha1.Machine]{Object: m}, q)
	}
	if !slices.Equal(told, []string{"ns/x m"}) || !slices.Equal(q.names, []string{"x"}) {
		t.Errorf("Gone was called with %v, enqueued %v", told, q.names)
	}
}

var _ workqueue.TypedRateLimitingInterface[ctrl.Request] = &woken{}
