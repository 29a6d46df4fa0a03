package nodegroup

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestAWatchThatDeliversNothing(t *testing.T) {
	const name = "a-1"
	for kind, object := range map[string]func(p *pools.Pool) client.Object{
		"MachineDeployments": func(p *pools.Pool) client.Object { return p.Deployment },
		"MachineSets":        func(p *pools.Pool) client.Object { return p.Set },
		"Machines":           func(p *pools.Pool) client.Object { return machineNamed(p, name) },
		"Nodes":              func(_ *pools.Pool) client.Object { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} },
	} {
		for change, do := range map[string]func(b *bench, o client.Object) error{
			"changed": func(b *bench, o client.Object) error {
				annotations := map[string]string{v1alpha1.AnnotationNodeMachine: "another"}
				o.SetAnnotations(annotations)
				return b.client.Update(t.Context(), o)
			},
			"deleted": func(b *bench, o client.Object) error { return b.client.Delete(t.Context(), o) },
			"replaced": func(b *bench, o client.Object) error {
				if err := b.client.Delete(t.Context(), o); err != nil {
					return err
				}
				o.SetUID(types.UID("another"))
				o.SetResourceVersion("")
				return b.client.Create(t.Context(), o)
			},
		} {
			t.Run(fmt.Sprintf("of the %s alone is noticed within 20 s when an object was %s, and calls fail 30 s later (report 95, report 96)", kind, change), func(t *testing.T) {
				w := pools.NewWorld()
				p := w.Pool("a", 1, 0, 5)
				p.Node(name)
				b := newBench(t, w)
				o := object(p)
				if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
				o.SetFinalizers(nil)
				if err := b.client.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				b.catchUp()
				b.stuck = fmt.Sprintf("%T ", o)
				// The other watches go on: a probe of each kind finds nothing late before the change.
				b.probeAll()
				wantKind(t, b.groups.Refresh(t.Context()), "")
				if err := do(b, o); err != nil {
					t.Fatal(err)
				}
				pass := func(d time.Duration) {
					for ; d > 0; d -= probeEvery {
						b.clock.Step(probeEvery)
						b.catchUp()
						b.probeOnce(t.Context())
					}
				}
				pass(20 * time.Second)
				if b.groups.freshness.behind.Load() == 0 {
					t.Error("nothing is noticed after 20 s")
				}
				pass(staleAfter)
				wantKind(t, b.groups.Refresh(t.Context()), model.Unavailable)
				wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), model.Unavailable)
				b.stuck = ""
				pass(20 * time.Second)
				wantKind(t, b.groups.Refresh(t.Context()), "")
			})
		}
	}
}

func TestDeleteNodesWhoseWriteFailsHalfWay(t *testing.T) {
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("machinedeployments").GroupResource(), "a", errors.New("it has changed"))
	t.Run("leaves no mark of the removal on the Machine, its Node or its group, and the Node is removed by the next call (report 129)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 0, 5)
		_, n := p.Node("a-1")
		p.Node("a-2")
		p.Node("a-3")
		b := newBench(t, w)
		b.beforePatch = func(int32) error { return apierrors.NewInternalError(errors.New("etcd is slow")) }
		before := w.Objects()
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), model.Unavailable)
		for _, o := range before {
			now := o.DeepCopyObject().(client.Object)
			if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(o), now); err != nil || now.GetResourceVersion() != b.sent[fmt.Sprintf("%T %s", o, client.ObjectKeyFromObject(o))].GetResourceVersion() {
				t.Errorf("%T %s was written, error %v", o, o.GetName(), err)
			}
		}
		b.beforePatch = nil
		b.expect(p, 3)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), "")
		b.expect(p, 2, "a-1")
	})
	t.Run("all of many removals of one group succeed at once, although a user writes the object in between and each write conflicts first (report 151)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 12, 0, 20)
		var nodes []membership.Node
		var names []string
		for k := range 12 {
			_, n := p.Node(fmt.Sprintf("a-%02d", k))
			if nodes = append(nodes, pools.Asked(n)); k < 10 {
				names = append(names, n.Name)
			}
		}
		b := newBench(t, w)
		b.freeze()
		var mu sync.Mutex
		b.beforePatch = func(n int32) error {
			mu.Lock()
			defer mu.Unlock()
			if n%3 == 2 {
				return conflict
			}
			if n%3 == 1 {
				d := b.deployment(p)
				d.Annotations["edited"] = fmt.Sprint(n)
				if err := b.client.Update(t.Context(), d); err != nil {
					t.Error(err)
				}
			}
			return nil
		}
		var calls sync.WaitGroup
		for k := range 10 {
			calls.Go(func() { wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), nodes[k:k+1]), "") })
		}
		calls.Wait()
		b.expect(p, 2, names...)
	})
}

func TestBoundsBeyondTheSizeOfAGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		low, high string
		grows     model.Kind
		shrinks   model.Kind
	}{
		"a minimum above the size is taken as it is, an Event says so, and the group can only grow (report 135)":   {"5", "9", "", model.FailedPrecondition},
		"a maximum below the size is taken as it is, an Event says so, and the group can only shrink (report 135)": {"0", "2", model.FailedPrecondition, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 3, 0, 5)
			_, n := p.Node("a-1")
			b := newBench(t, w)
			d := b.deployment(p)
			d.Annotations[v1alpha1.AnnotationsMinSize[0]], d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = tc.low, tc.high
			if err := b.client.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			b.catchUp()
			b.groups.advisor.advise(b.groups.store.published())
			if said := drain(b.recorder); !strings.Contains(said, "SizeOutOfBounds") {
				t.Errorf("the Events are %q", said)
			}
			wantKind(t, b.groups.Refresh(t.Context()), "")
			if list := b.groups.List(); len(list) != 1 || fmt.Sprint(list[0].Min, list[0].Max) != tc.low+" "+tc.high {
				t.Errorf("the groups are %+v", list)
			}
			b.expect(p, 3)
			wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), tc.shrinks)
			wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), tc.grows)
		})
	}
}
