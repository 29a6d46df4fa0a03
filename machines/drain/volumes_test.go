package drain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ward is a node with pods and volumes, whose evictions end pods at once when granted.
type ward struct {
	t      *testing.T
	client client.Client
	mu     sync.Mutex
	asked  []string
	// answer is what the API server says to an eviction; nil: granted.
	answer func(ctx context.Context, pod string) error
}

func newWard(t *testing.T, objects ...client.Object) *ward {
	t.Helper()
	w := &ward{t: t}
	w.client = indexed().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, o.GetName())
			if w.answer != nil {
				return w.answer(ctx, o.GetName())
			}
			return c.Delete(ctx, o)
		},
	}).Build()
	return w
}

func (w *ward) drainer() *Drainer { return &Drainer{Client: w.client, Reader: w.client} }

// evictions are those since the last time.
func (w *ward) evictions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	slices.Sort(asked)
	return asked
}

func (w *ward) detach(volume string) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "n-" + volume}}); err != nil {
		w.t.Fatal(err)
	}
}

// withVolume is a pod on the node, its claim, and the attachment of its volume.
func withVolume(name string, mode corev1.PersistentVolumeAccessMode) []client.Object {
	p := pod(name)
	p.Spec.NodeName = "n"
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim-" + name}}}}
	return []client.Object{&p,
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim-" + name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name, AccessModes: []corev1.PersistentVolumeAccessMode{mode}}},
		attachment("n", "pv-"+name),
	}
}

func attachment(node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + volume},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
}

func plain(name string) client.Object {
	p := pod(name)
	p.Spec.NodeName = "n"
	return &p
}

func TestVolumes(t *testing.T) {
	order := Order{Node: "n", VolumeTimeout: 5 * time.Minute}
	look := func(t *testing.T, w *ward, l *ledger, after time.Duration) Result {
		t.Helper()
		result, err := w.drainer().pass(t.Context(), order, l, noon.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	t.Run("MCM-59 pods with volumes of their own go one by one, each when the volume before is detached", func(t *testing.T) {
		w, l := newWard(t, append(append(withVolume("db-1", corev1.ReadWriteOnce), withVolume("db-2", corev1.ReadWriteOnce)...), plain("app"))...), newLedger()
		look(t, w, l, 0)
		if got := w.evictions(); !slices.Equal(got, []string{"app", "db-1"}) {
			t.Fatalf("first %v", got)
		}
		if r := look(t, w, l, time.Minute); len(w.evictions()) != 0 || r.Remaining != 1 || !slices.Equal(r.Detaching, []string{"pv-db-1"}) {
			t.Errorf("while the volume is attached: %+v", r)
		}
		w.detach("pv-db-1")
		look(t, w, l, 2*time.Minute)
		if got := w.evictions(); !slices.Equal(got, []string{"db-2"}) {
			t.Errorf("then %v", got)
		}
		if r := look(t, w, l, 3*time.Minute); !r.Done || !slices.Equal(r.Detaching, []string{"pv-db-2"}) {
			t.Errorf("MC-61 the last volume is told: %+v", r)
		}
	})
	t.Run("MC-61 a volume that is not detached in time holds nothing up", func(t *testing.T) {
		w, l := newWard(t, append(withVolume("db-1", corev1.ReadWriteOnce), withVolume("db-2", corev1.ReadWriteOnce)...)...), newLedger()
		look(t, w, l, 0)
		look(t, w, l, time.Second)
		w.evictions()
		look(t, w, l, time.Second+5*time.Minute)
		if got := w.evictions(); !slices.Equal(got, []string{"db-2"}) {
			t.Errorf("then %v", got)
		}
	})
	t.Run("MCM-61 volumes that may be elsewhere too, and those that are not attached, are not waited for", func(t *testing.T) {
		objects := append(withVolume("web-1", corev1.ReadWriteMany), withVolume("web-2", corev1.ReadWriteMany)...)
		local := withVolume("local", corev1.ReadWriteOnce)
		w := newWard(t, append(objects, local[0], local[1], attachment("elsewhere", "pv-old"), attachment("n", "pv-old"))...)
		look(t, w, newLedger(), 0)
		if got := w.evictions(); !slices.Equal(got, []string{"local", "web-1", "web-2"}) {
			t.Errorf("evicted %v", got)
		}
	})
	t.Run("a volume is waited for whose attachment the watch does not show yet", func(t *testing.T) {
		w, l := newWard(t, withVolume("db", corev1.ReadWriteOnce)...), newLedger()
		late := interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, attachments := list.(*storagev1.VolumeAttachmentList); attachments {
					return nil
				}
				return c.List(ctx, list, opts...)
			},
		})
		look := func(after time.Duration) Result {
			t.Helper()
			result, err := (&Drainer{Client: late, Reader: w.client}).pass(t.Context(), order, l, noon.Add(after))
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		look(0)
		if r := look(time.Second); !r.Done || !slices.Equal(r.Detaching, []string{"pv-db"}) {
			t.Errorf("while the volume is attached: %+v", r)
		}
		w.detach("pv-db")
		if r := look(2 * time.Second); !r.Done || len(r.Detaching) != 0 {
			t.Errorf("once it is detached: %+v", r)
		}
	})
	t.Run("the volume of a pod that stays is not waited for", func(t *testing.T) {
		objects := withVolume("agent", corev1.ReadWriteOnce)
		objects[0].SetOwnerReferences([]metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}})
		if r := look(t, newWard(t, objects...), newLedger(), 0); !r.Done || len(r.Detaching) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestBudgets(t *testing.T) {
	budget := func(change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"},
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
			Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1}}
		if change != nil {
			change(b)
		}
		return b
	}
	for _, tt := range []struct {
		name     string
		change   func(*policyv1.PodDisruptionBudget)
		hopeless bool
	}{
		{"MCM-62 a budget that allows nothing with all its pods healthy is reported", nil, true},
		{"MCM-62 not one whose pods are not all healthy", func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = 2 }, false},
		{"MCM-62 not one that has not been looked at since its last change", func(b *policyv1.PodDisruptionBudget) { b.Generation = 7 }, false},
		{"MCM-62 not another one's", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = map[string]string{"a": "b"} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWard(t, plain("p"), budget(tt.change))
			w.answer = func(context.Context, string) error { return tooMany() }
			r, err := w.drainer().Pass(t.Context(), Order{Node: "n"}, noon)
			if err != nil || len(r.Blocked) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			if got := strings.Contains(r.Blocked[0].Reason, "never allows a disruption"); got != tt.hopeless || !strings.Contains(r.Blocked[0].Reason, "needs 1 healthy pods") {
				t.Errorf("%q", r.Blocked[0].Reason)
			}
		})
	}
}

func TestAnEvictionDoesNotWaitForABudgetThatIsBeingProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, plain("p"))
		w.answer = func(ctx context.Context, _ string) error { // as client-go does on 429 with Retry-After
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		r, err := w.drainer().Pass(t.Context(), Order{Node: "n"}, noon)
		if err != nil || len(r.Blocked) != 1 || r.Done || time.Since(began) > patience {
			t.Errorf("%+v, %v, after %v", r, err, time.Since(began))
		}
	})
}

func TestCrew(t *testing.T) {
	errand := func(uid types.UID) Errand {
		return Errand{Machine: types.NamespacedName{Name: string(uid)}, UID: uid, Order: Order{Node: "n"}, Every: 10 * time.Second}
	}
	t.Run("a result is good for a while, unless the order changes", func(t *testing.T) {
		clock := clocktesting.NewFakePassiveClock(noon)
		w := newWard(t, plain("p"))
		w.answer = func(context.Context, string) error { return tooMany() }
		c := NewCrew(CrewOptions{Drainer: w.drainer(), Clock: clock})
		for _, step := range []struct {
			name  string
			after time.Duration
			mode  Mode
			looks int
		}{
			{"the first time", 0, Mode{}, 1}, {"soon after", 9 * time.Second, Mode{}, 0}, {"when it is old", 10 * time.Second, Mode{}, 1},
			{"MCM-57 when force is asked for in the middle", 11 * time.Second, Mode{Abrupt: true}, 1}, {"and not again", 12 * time.Second, Mode{Abrupt: true}, 0},
		} {
			clock.SetTime(noon.Add(step.after))
			e := errand("u")
			e.Order.Mode = step.mode
			if _, known, err := c.Look(t.Context(), e); err != nil || !known || len(w.evictions()) != step.looks {
				t.Errorf("%s: known %v, error %v", step.name, known, err)
			}
		}
	})
	t.Run("MCM-67 a drain that hangs holds up neither who asks nor the drains of others", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w := newWard(t)
		hang := make(chan struct{})
		reader := interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				o := &client.ListOptions{}
				o.ApplyOptions(opts)
				if o.FieldSelector != nil && o.FieldSelector.String() == "spec.nodeName=stuck" {
					select {
					case <-hang:
					case <-ctx.Done():
					}
					return errors.New("the API server does not answer")
				}
				return c.List(ctx, list, opts...)
			},
		})
		looked := make(chan types.NamespacedName, 100)
		c := NewCrew(CrewOptions{Drainer: &Drainer{Client: w.client, Reader: reader}, Clock: clocktesting.NewFakePassiveClock(noon), Workers: 2, Looked: func(key types.NamespacedName) { looked <- key }})
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		begun := func(context.Context) (bool, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.running, nil
		}
		if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, begun); err != nil {
			t.Fatal("the crew does not begin")
		}
		stuck := errand("stuck")
		stuck.Order.Node = "stuck"
		if _, known, err := c.Look(ctx, stuck); known || err != nil {
			t.Errorf("a look that has only begun has a result: %v, %v", known, err)
		}
		for range 50 {
			e := errand("other")
			if _, _, err := c.Look(ctx, e); err != nil {
				t.Error(err)
			}
			c.Forget("other")
		}
		if _, _, err := c.Look(ctx, errand("free")); err != nil {
			t.Error(err)
		}
		for key := range looked {
			if key.Name == "free" {
				break
			}
		}
		if r, known, err := c.Look(ctx, errand("free")); !known || !r.Done || err != nil {
			t.Errorf("%+v, %v, %v", r, known, err)
		}
		close(hang)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
