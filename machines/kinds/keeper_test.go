package kinds

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// server answers reads of metadata, each after a millisecond, with what stood in it when the read came.
type server struct {
	mu      sync.Mutex
	objects map[string]*metav1.PartialObjectMetadata
	refuses error
	reads   int
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, err := s.find(key.Name)
	time.Sleep(time.Millisecond)
	if err != nil {
		return err
	}
	*into.(*metav1.PartialObjectMetadata) = *found
	return nil
}

func (s *server) find(name string) (*metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.refuses != nil {
		return nil, s.refuses
	}
	if o, ok := s.objects[name]; ok {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

// count returns how many reads there were.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *server) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("drover may not list definitions")
}

// change alters the definition of that name.
func (s *server) change(name string, change func(*metav1.PartialObjectMetadata)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.objects[name])
}

func remove(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = ptr.To(metav1.Now()) }

func allow(o *metav1.PartialObjectMetadata) {
	o.Annotations = map[string]string{v1alpha1.AnnotationAllowDeletion: "true"}
}

func installed() *server {
	s := &server{objects: map[string]*metav1.PartialObjectMetadata{}}
	for _, name := range Names {
		s.objects[name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	}
	return s
}

func keeper(t *testing.T, s *server) *Keeper {
	t.Helper()
	k, err := New(Options{Reader: s, Clock: clock.RealClock{}, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// bare is a Machine without an owner, made now.
func bare() *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", CreationTimestamp: metav1.Now()}}
}

func TestKeeperNeverAnswersFromBeforeTheQuestion(t *testing.T) {
	t.Run("of a thousand Machines that go with their definition none is let through (F-42)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := installed()
			k := keeper(t, s)
			// Deletions that are wanted keep looks under way when the definition goes.
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() { k.Withheld(t.Context(), bare(), false) })
			}
			time.Sleep(2 * time.Millisecond)
			s.change(machines, remove)
			before := s.count()
			for range 1000 {
				all.Go(func() {
					if reason, _ := k.Withheld(t.Context(), bare(), false); reason != ReasonBeingDeleted {
						t.Errorf("a Machine was let through: %q", reason)
					}
				})
			}
			all.Wait()
			if n := s.count() - before; n > 4*len(Names) {
				t.Errorf("%d reads for a thousand Machines that ask at once", n)
			}
			if testutil.ToFloat64(k.metric) != 1 {
				t.Error("the metric does not say so")
			}
		})
	})
	t.Run("a deletion that has begun takes an answer of the last 5 s, and no older one (F-42)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := installed()
			k := keeper(t, s)
			for range 3 {
				k.Withheld(t.Context(), bare(), true)
			}
			if n := s.count(); n != len(Names) {
				t.Errorf("%d reads", n)
			}
			s.change(machines, remove)
			time.Sleep(goodFor)
			if reason, _ := k.Withheld(t.Context(), bare(), true); reason != ReasonBeingDeleted {
				t.Errorf("got %q", reason)
			}
		})
	})
	t.Run("a deletion that is withheld goes on soon after it was allowed (F-42)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := installed()
			k := keeper(t, s)
			s.change(machines, remove)
			k.Withheld(t.Context(), bare(), false)
			s.change(machines, allow)
			time.Sleep(goodFor)
			if reason, message := k.Withheld(t.Context(), bare(), false); reason != "" {
				t.Errorf("got %s: %s", reason, message)
			}
			if testutil.ToFloat64(k.metric) != 0 {
				t.Error("the metric still says so")
			}
		})
	})
}

func TestKeeperWithholdsWhatItCannotKnow(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, machines, errors.New("no role"))
	for name, tt := range map[string]struct {
		err  error
		says string
	}{
		"while drover's role does not allow the look (F-42)":   {forbidden, "kubectl apply --server-side -k deploy"},
		"while the API server does not answer the look (F-42)": {errors.New("no route"), "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			s := installed()
			s.refuses = tt.err
			reason, message := keeper(t, s).Withheld(t.Context(), bare(), false)
			if reason != ReasonUnknown || !strings.Contains(message, tt.says) {
				t.Errorf("got %s: %s", reason, message)
			}
		})
	}
	t.Run("an answer that the end of the process cut off is not kept (F-42)", func(t *testing.T) {
		s := installed()
		k := keeper(t, s)
		ended, end := context.WithCancel(t.Context())
		end()
		s.refuses = context.Canceled
		if reason, _ := k.Withheld(ended, bare(), false); reason != ReasonUnknown {
			t.Errorf("got %q", reason)
		}
		s.refuses = nil
		if reason, _ := k.Withheld(t.Context(), bare(), false); reason != "" {
			t.Errorf("got %q", reason)
		}
	})
}

func TestMachinesOutliveTheDefinitionOfTheirOwners(t *testing.T) {
	const set = "pool-1"
	member := func() *v1alpha1.Machine {
		m := bare()
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: set, UID: "s", Controller: ptr.To(true)}}
		return m
	}
	anew := func(o *metav1.PartialObjectMetadata) {
		o.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute))
	}
	withSet := func(uid types.UID) func(*server) {
		return func(s *server) {
			s.objects[set] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: set, UID: uid}}
		}
	}
	for _, tt := range []struct {
		name    string
		machine *v1alpha1.Machine
		change  []func(*server)
		want    string
	}{
		{"a Machine whose set is gone goes (F-42)", member(), nil, ""},
		{"it is held when the definition of sets was made again since (F-42)", member(), []func(*server){func(s *server) { s.change(sets, anew) }}, ReasonBeingDeleted},
		{"it is held when that of deployments was, whose sets went with it (F-42)", member(), []func(*server){func(s *server) { s.change(deployments, anew) }}, ReasonBeingDeleted},
		{"also when another set has that name by now (F-42)", member(), []func(*server){func(s *server) { s.change(sets, anew) }, withSet("other")}, ReasonBeingDeleted},
		{"it goes when its set is there, which does not want it any more (F-42)", member(), []func(*server){func(s *server) { s.change(sets, anew) }, withSet("s")}, ""},
		{"it goes when the definition of Machines allows that (F-42)", member(), []func(*server){func(s *server) { s.change(sets, anew); s.change(machines, allow) }}, ""},
		{"a Machine without an owner goes (F-42)", bare(), []func(*server){func(s *server) { s.change(sets, anew) }}, ""},
		{"definitions that own no Machine may be younger (F-42)", member(), []func(*server){func(s *server) { s.change("machineclasses.cluster.k8s.io", anew) }}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := installed()
			for _, change := range tt.change {
				change(s)
			}
			if reason, message := keeper(t, s).Withheld(t.Context(), tt.machine, false); reason != tt.want {
				t.Errorf("got %q: %s", reason, message)
			}
		})
	}
}
