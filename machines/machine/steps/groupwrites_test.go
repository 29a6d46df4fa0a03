package steps

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/scope"
)

// bench holds the back-offs of one group, with an API server that refuses some writes of the group's status.
type bench struct {
	t       *testing.T
	client  client.Client
	pool    *v1alpha1.MachineDeployment
	retries *Retries
	stop    context.CancelFunc
	// answers holds the errors of the next writes of the status; a nil error means that the write succeeds. writes is the number of all
	// writes.
	answers []error
	writes  int
	// during is called during each write, unless it is nil.
	during func()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, pool: &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool", UID: "p"}}}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(b.pool).WithStatusSubresource(b.pool).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceApply: b.apply}).Build()
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

func (b *bench) apply(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	b.writes++
	if during := b.during; during != nil {
		b.during = nil
		during()
	}
	if len(b.answers) > 0 {
		answer := b.answers[0]
		b.answers = b.answers[1:]
		if answer != nil {
			return answer
		}
	}
	return c.SubResource(sub).Apply(ctx, o, opts...)
}

// start starts a new process without memory of earlier processes. stop ends the process.
func (b *bench) start() {
	ctx, cancel := context.WithCancel(b.t.Context())
	b.retries = NewRetries(b.client, func(types.NamespacedName) {})
	ended := make(chan error, 1)
	go func() { ended <- b.retries.Start(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
}

// scope returns the scope of a reconcile of a Machine of the group. server is the Machine's server; nil means that it has none.
func (b *bench) scope(server *cloud.Server) *scope.Scope {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	s := scope.NewStore(scope.Options{Clock: clock.RealClock{}}).Open(m)
	s.Group.Holder, s.Observed.Cloud.Server = b.stored(), server
	return s
}

func (b *bench) stored() *v1alpha1.MachineDeployment {
	b.t.Helper()
	var pool v1alpha1.MachineDeployment
	if err := b.client.Get(b.t.Context(), client.ObjectKeyFromObject(b.pool), &pool); err != nil {
		b.t.Fatal(err)
	}
	return &pool
}

// full reports that the cloud refused to create a server because a quota was exceeded.
func (b *bench) full() {
	b.retries.FailedInCloud(b.t.Context(), b.scope(nil), fault.New(fault.Quota, fault.CodeQuotaExceeded, "no more cores"))
}

// works waits until the back-off is over, and then reports that a server of the group is ACTIVE.
func (b *bench) works() {
	time.Sleep(10 * time.Minute)
	b.retries.ServerWorks(b.t.Context(), b.scope(&cloud.Server{State: cloud.ServerActive}))
}

// shows fails the test unless the number of back-offs in the group's status is want.
func (b *bench) shows(want int) {
	b.t.Helper()
	synctest.Wait()
	if got := b.stored().Status.Backoffs; len(got) != want {
		b.t.Errorf("the status has %d back-offs, want %d: %+v", len(got), want, got)
	}
}

// later moves the clock. In this time there is no event of the group.
func (b *bench) later() {
	time.Sleep(5 * time.Minute)
	synctest.Wait()
}

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "machinedeployments"}, "pool", errors.New("the object has been modified"))
}

// refusals holds the errors with which the API server refuses the first writes of the group's status.
var refusals = map[string][]error{
	"once":                  {errors.New("EOF")},
	"three times":           {errors.New("EOF"), apierrors.NewInternalError(errors.New("etcd")), errors.New("EOF")},
	"because of a conflict": {conflict()},
}

func TestAFailedWriteOfAGroupsBackoffsIsRepeated(t *testing.T) {
	for name, answers := range refusals {
		t.Run("a new back-off whose write was refused "+name+" is written to the group's status later (F-24)", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.answers = answers
				b.full()
				b.shows(0)
				b.later()
				b.shows(1)
				if want := len(answers) + 1; b.writes != want {
					t.Errorf("%d writes, want %d", b.writes, want)
				}
			})
		})
		t.Run("a back-off whose removal was refused "+name+" is removed from the group's status later (F-24)", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.full()
				b.shows(1)
				b.answers = answers
				b.works()
				b.shows(1)
				b.later()
				b.shows(0)
			})
		})
		t.Run("when the write of a back-off was refused "+name+", the group's status does not show the back-off after its end (F-24)", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.answers = answers
				b.full()
				b.works()
				b.later()
				b.shows(0)
			})
		})
	}
	t.Run("stops repeating the write of a back-off once the group is gone (F-24)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.answers = []error{errors.New("EOF"), apierrors.NewNotFound(schema.GroupResource{}, "pool")}
			b.full()
			b.later()
			before := b.writes
			b.later()
			if b.writes != before || before != 2 {
				t.Errorf("%d writes, then %d", before, b.writes-before)
			}
		})
	})
}

func TestANewProcessCorrectsTheBackoffsInAGroupsStatus(t *testing.T) {
	t.Run("writes a back-off that the old process failed to write, at the group's next failed server create (F-24)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.answers = []error{errors.New("EOF")}
			b.full()
			b.stop()
			b.start()
			b.full()
			b.shows(1)
		})
	})
	t.Run("removes a back-off that the old process failed to remove, when the group's next server is ACTIVE (F-24)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.full()
			b.answers = []error{errors.New("EOF")}
			b.works()
			b.stop()
			b.start()
			b.shows(1)
			b.works()
			b.shows(0)
		})
	})
}

func TestAChangeOfBackoffsDuringAWriteIsWritten(t *testing.T) {
	t.Run("a back-off that ends during the write of the group's status is removed by a second write (F-24)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.during = b.works
			b.full()
			b.shows(0)
			if b.writes != 2 {
				t.Errorf("%d writes, want 2", b.writes)
			}
		})
	})
}
