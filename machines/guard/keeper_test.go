package guard

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

const (
	sets        = "machinesets.cluster.k8s.io"
	deployments = "machinedeployments.cluster.k8s.io"
)

// server is an API server that answers reads of metadata after a millisecond, with the state at the time of the request.
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

// count returns the number of reads.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *server) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("listing definitions is not allowed")
}

// change changes the CRD with the given name.
func (s *server) change(name string, change func(*metav1.PartialObjectMetadata)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.objects[name])
}

func startDeletion(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = ptr.To(metav1.Now()) }

func allow(o *metav1.PartialObjectMetadata) {
	o.Annotations = map[string]string{v1alpha1.AnnotationAllowDeletion: "true"}
}

func installed() *server {
	s := &server{objects: map[string]*metav1.PartialObjectMetadata{}}
	for _, name := range CRDs {
		s.objects[name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	}
	return s
}

func keeper(t *testing.T, s *server) *Keeper {
	t.Helper()
	k, err := NewKeeper(s, clock.RealClock{}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// bare returns a Machine without an owner, with the current time as its creation time.
func bare() *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", CreationTimestamp: metav1.Now()}}
}

func TestHowOldAReadOfTheCRDsMayBeForADeletion(t *testing.T) {
	t.Run("once the CRD of Machines is being deleted, a few reads of CRDs suffice to block a thousand deletions of Machines (F-42)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := installed()
			k := keeper(t, s)
			// Start reads of the CRDs that are still running when the deletion of the CRD begins. Their results must not be used
			// for the thousand calls below.
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() { _, _ = k.Withheld(t.Context(), bare(), false) })
			}
			time.Sleep(2 * time.Millisecond)
			s.change(machines, startDeletion)
			before := s.count()
			for range 1000 {
				all.Go(func() {
					if why, err := k.Withheld(t.Context(), bare(), false); why == "" || err != nil {
						t.Errorf("Withheld() = %q, %v, want a reason", why, err)
					}
				})
			}
			all.Wait()
			if n := s.count() - before; n > 4*len(CRDs) {
				t.Errorf("%d reads for a thousand concurrent calls, want %d at most", n, 4*len(CRDs))
			}
			if testutil.ToFloat64(k.metric) != 1 {
				t.Error("the metric is not 1")
			}
		})
	})
	t.Run("a deletion that has already begun may use a read of the CRDs that is up to 5 s old (F-42)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := installed()
			k := keeper(t, s)
			for range 3 {
				_, _ = k.Withheld(t.Context(), bare(), true)
			}
			if n := s.count(); n != len(CRDs) {
				t.Errorf("%d reads", n)
			}
			s.change(machines, startDeletion)
			time.Sleep(readGoodFor)
			if why, _ := k.Withheld(t.Context(), bare(), true); why == "" {
				t.Error("Withheld() returned no reason")
			}
		})
	})
	t.Run("a blocked deletion is allowed within 5 s after the CRD gets the annotation allow-deletion (F-42)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := installed()
			k := keeper(t, s)
			s.change(machines, startDeletion)
			_, _ = k.Withheld(t.Context(), bare(), false)
			s.change(machines, allow)
			time.Sleep(readGoodFor)
			if why, err := k.Withheld(t.Context(), bare(), false); why != "" || err != nil {
				t.Errorf("Withheld() = %q, %v, want no reason", why, err)
			}
			if testutil.ToFloat64(k.metric) != 0 {
				t.Error("the metric is not 0")
			}
		})
	})
}

func TestDeletionsAreBlockedWhileCRDsCannotBeRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, machines, errors.New("no role"))
	for name, tt := range map[string]struct {
		err  error
		says string
	}{
		"a deletion is blocked while drover's role does not allow reading CRDs (F-42)": {forbidden, "kubectl apply --server-side -k deploy"},
		"a deletion is blocked while the API server does not answer (F-42)":            {errors.New("no route"), "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			s := installed()
			s.refuses = tt.err
			why, err := keeper(t, s).Withheld(t.Context(), bare(), false)
			if why != "" || err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Withheld() = %q, %v, want an error with %q", why, err, tt.says)
			}
		})
	}
	t.Run("the end of one caller's context ends no read of the CRDs, because other deletions wait for it (F-42)", func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		if why, err := keeper(t, installed()).Withheld(ended, bare(), false); why != "" || err != nil {
			t.Errorf("Withheld() = %q, %v", why, err)
		}
	})
}

func TestSinceWhenAllCRDsStand(t *testing.T) {
	recent := metav1.NewTime(time.Now().Add(time.Minute))
	for _, tt := range []struct {
		name   string
		change func(*server)
		fails  bool
		after  time.Time
	}{
		{"since the youngest of the CRDs of Machines, sets and deployments was created (MCM-82)", func(s *server) {
			s.change(sets, func(o *metav1.PartialObjectMetadata) { o.CreationTimestamp = recent })
		}, false, recent.Time},
		{"a younger CRD whose objects own no Machine does not count (MCM-82)", func(s *server) {
			s.change("clusters.cluster.k8s.io", func(o *metav1.PartialObjectMetadata) { o.CreationTimestamp = recent })
		}, false, recent.Add(-61 * time.Minute)},
		{"never while a CRD is being deleted, even if an annotation allows that (MCM-82)", func(s *server) { s.change(machines, allow); s.change(machines, startDeletion) }, true, time.Time{}},
		{"never while a CRD is missing (MCM-82)", func(s *server) { delete(s.objects, "machineclasses.cluster.k8s.io") }, true, time.Time{}},
		{"never while the CRDs cannot be read (MCM-82)", func(s *server) { s.refuses = errors.New("no route") }, true, time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := installed()
			tt.change(s)
			since, err := DefinedSince(t.Context(), s)
			if (err != nil) != tt.fails || !tt.fails && since.Sub(tt.after).Abs() > 5*time.Second {
				t.Errorf("Since() = %v, %v, want %v", since, err, tt.after)
			}
		})
	}
}

func TestWhetherTheCRDsOfAMachinesOwnersBlockItsDeletion(t *testing.T) {
	const set = "pool-1"
	member := func() *v1alpha1.Machine {
		m := bare()
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: set, UID: "s", Controller: ptr.To(true)}}
		return m
	}
	recreated := func(o *metav1.PartialObjectMetadata) {
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
		blocked bool
	}{
		{"allows the deletion when the set was deleted but the CRD of sets was not (F-42)", member(), nil, false},
		{"blocks the deletion when the CRD of sets was created again after the Machine, because the Machine's set was deleted with the earlier CRD (F-42)", member(), []func(*server){func(s *server) { s.change(sets, recreated) }}, true},
		{"blocks the deletion when the CRD of deployments was created again after the Machine, because the Machine's deployment was deleted with the earlier CRD (F-42)", member(), []func(*server){func(s *server) { s.change(deployments, recreated) }}, true},
		{"blocks the deletion when the CRD of sets was created again after the Machine, even if a new set has the name of the Machine's deleted set (F-42)", member(), []func(*server){func(s *server) { s.change(sets, recreated) }, withSet("other")}, true},
		{"allows the deletion when the CRD of sets was created again after the Machine but the Machine's set still exists (F-42)", member(), []func(*server){func(s *server) { s.change(sets, recreated) }, withSet("s")}, false},
		{"allows the deletion when the CRD of sets was created again after the Machine but the CRD of Machines has the annotation allow-deletion (F-42)", member(), []func(*server){func(s *server) { s.change(sets, recreated); s.change(machines, allow) }}, false},
		{"allows the deletion of a Machine without an owner even when the CRD of sets was created again after the Machine (F-42)", bare(), []func(*server){func(s *server) { s.change(sets, recreated) }}, false},
		{"ignores the age of CRDs whose objects own no Machine (F-42)", member(), []func(*server){func(s *server) { s.change("machineclasses.cluster.k8s.io", recreated) }}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := installed()
			for _, change := range tt.change {
				change(s)
			}
			if why, err := keeper(t, s).Withheld(t.Context(), tt.machine, false); (why != "") != tt.blocked || err != nil {
				t.Errorf("Withheld() = %q, %v, want a reason: %v", why, err, tt.blocked)
			}
		})
	}
}

// inPlace returns the state of drover's CRDs after an installation, with the given changes.
func inPlace(change map[string]func(*metav1.PartialObjectMetadata)) definitions {
	all := definitions{}
	for name, crd := range installed().objects {
		if c := change[name]; c != nil {
			c(crd)
		}
		if crd.UID != missing {
			all[name] = crd
		}
	}
	return all
}

// missing is the UID with which a test marks a CRD that does not exist.
const missing = "missing"

func TestWhetherCRDsBlockTheDeletionOfMachines(t *testing.T) {
	deleting, allowed := startDeletion, allow
	allowedDeleting := func(o *metav1.PartialObjectMetadata) { startDeletion(o); allow(o) }
	missing := func(o *metav1.PartialObjectMetadata) { o.UID = missing }
	for _, tt := range []struct {
		name   string
		change map[string]func(*metav1.PartialObjectMetadata)
		says   []string
	}{
		{"allows deletions while all CRDs are in place (F-42)", nil, nil},
		{"allows deletions when a CRD has the annotation allow-deletion and is not being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: allowed}, nil},
		{"blocks deletions while the CRD of Machines is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: deleting},
			[]string{"machines.cluster.k8s.io is being deleted", "kubectl annotate crd machines.cluster.k8s.io drover-project.github.io/allow-deletion=true", "docs/operations.md"}},
		{"allows deletions when the CRD of Machines is being deleted and has the annotation allow-deletion (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: allowedDeleting}, nil},
		{"blocks deletions while the CRD of sets is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: deleting}, []string{"kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"blocks deletions while the CRD of deployments is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){deployments: deleting}, []string{deployments}},
		{"blocks deletions while the CRD of kind Cluster in drover's API group is being deleted (F-42)", map[string]func(*metav1.PartialObjectMetadata){"clusters.cluster.k8s.io": deleting}, []string{"clusters.cluster.k8s.io"}},
		{"blocks deletions while one of two CRDs that are being deleted lacks the annotation allow-deletion (F-42)", map[string]func(*metav1.PartialObjectMetadata){machines: allowedDeleting, sets: deleting},
			[]string{"machinesets.cluster.k8s.io is being deleted.", "kubectl annotate crd machinesets.cluster.k8s.io drover"}},
		{"blocks deletions while the CRD of sets is missing, because the deletion of that CRD may have caused them (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: missing},
			[]string{"machinesets.cluster.k8s.io is missing", "kubectl annotate crd machines.cluster.k8s.io drover"}},
		{"allows deletions while the CRDs of sets and deployments are missing when the CRD of Machines has the annotation allow-deletion (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: missing, deployments: missing, machines: allowedDeleting}, nil},
		{"blocks deletions while several CRDs are missing or being deleted, with a message that names each CRD to annotate only once (F-42)", map[string]func(*metav1.PartialObjectMetadata){sets: missing, deployments: missing, machines: deleting},
			[]string{"kubectl annotate crd machines.cluster.k8s.io drover"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := judge(inPlace(tt.change))
			if (got == "") != (len(tt.says) == 0) {
				t.Errorf("got %q", got)
			}
			for _, want := range tt.says {
				if !strings.Contains(got, want) {
					t.Errorf("judge() = %q, want it to contain %q", got, want)
				}
			}
		})
	}
}
