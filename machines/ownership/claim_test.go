package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// claims holds a MachineSet, and a RefManager whose fake API server has Machines.
type claims struct {
	RefManager[*v1alpha1.Machine]
	set      *v1alpha1.MachineSet
	released []string
}

func newClaims(t *testing.T, machines ...client.Object) *claims {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "set-uid"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(machines, set)...).WithIndex(&v1alpha1.Machine{}, "controller", ControllerOf).Build()
	k := &claims{set: set.DeepCopy()}
	k.RefManager = RefManager[*v1alpha1.Machine]{
		Writer: Writer{Client: c, FieldManager: "tester"}, Live: c, Owners: v1alpha1.MachineSetKind, Objects: v1alpha1.MachineKind,
		MadeFor: v1alpha1.IsMachineNameOf,
		Released: func(owner types.NamespacedName, m *v1alpha1.Machine) {
			k.released = append(k.released, owner.Name+" "+m.Name)
		},
		List: func(ctx context.Context, namespace, controller string) ([]*v1alpha1.Machine, error) {
			var list v1alpha1.MachineList
			err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"controller": controller})
			return Pointers(list.Items), err
		},
	}
	return k
}

// claim returns the names of the claimed Machines.
func (k *claims) claim(t *testing.T) ([]string, error) {
	t.Helper()
	claimed, err := k.Claim(t.Context(), k.set, labels.SelectorFromSet(labels.Set{"pool": "a"}))
	var names []string
	for _, m := range claimed {
		names = append(names, m.Name)
	}
	return names, err
}

// stored reads a Machine.
func (k *claims) stored(t *testing.T, name string) *v1alpha1.Machine {
	t.Helper()
	var m v1alpha1.Machine
	if err := k.Writer.Client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: name}, &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// machineOf returns a Machine with a pool label and a controller. An empty controller means none.
func machineOf(name, controller, pool string) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"pool": pool}}}
	if controller != "" {
		owner := &metav1.ObjectMeta{Name: controller, UID: types.UID(controller + "-uid")}
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.MachineSetKind)}
	}
	return m
}

func TestWhichObjectsAnOwnerClaimsAndReleases(t *testing.T) {
	leaving := machineOf("leaving", "set", "b")
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"keep"}, new(metav1.Now())
	dying := machineOf("set-dying", "", "a")
	dying.Finalizers, dying.DeletionTimestamp = []string{"keep"}, new(metav1.Now())
	k := newClaims(t, machineOf("own", "set", "a"), machineOf("relabelled", "set", "b"), leaving,
		machineOf("set-orphan", "", "a"), machineOf("set-stranger", "", "b"), dying, machineOf("set-foreign", "other", "a"),
		machineOf("other-orphan", "", "a"), machineOf("set-two-orphan", "", "a"))
	names, err := k.claim(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("claims matching objects that it owns, or that were made for it and have no controller, and its own objects that are being deleted (MC-30)", func(t *testing.T) {
		if want := []string{"leaving", "own", "set-orphan"}; !slices.Equal(names, want) {
			t.Errorf("Claim() = %v, want %v", names, want)
		}
	})
	t.Run("releases an object whose labels no longer match (MC-30)", func(t *testing.T) {
		m := k.stored(t, "relabelled")
		if len(m.OwnerReferences) != 0 || !slices.Equal(k.released, []string{"set relabelled"}) {
			t.Errorf("owners %v, released %v", m.OwnerReferences, k.released)
		}
	})
	t.Run("becomes the controller of a matching object that was made for it and has no controller (MC-30)", func(t *testing.T) {
		if m := k.stored(t, "set-orphan"); !metav1.IsControlledBy(m, k.set) {
			t.Errorf("owners %v", m.OwnerReferences)
		}
	})
	t.Run("does not become the controller of an object that only has matching labels, and whose name was not made from the owner's (F-106)", func(t *testing.T) {
		for _, name := range []string{"other-orphan", "set-two-orphan"} {
			if m := k.stored(t, name); len(m.OwnerReferences) != 0 {
				t.Errorf("%s has owners %v", name, m.OwnerReferences)
			}
		}
	})
	t.Run("does not become the controller of objects that do not match its selector, are being deleted or have another controller", func(t *testing.T) {
		for _, name := range []string{"set-stranger", "set-dying", "set-foreign"} {
			if m := k.stored(t, name); metav1.IsControlledBy(m, k.set) {
				t.Errorf("%s has owners %v", name, m.OwnerReferences)
			}
		}
	})
}

func TestAnOwnerThatIsBeingDeletedClaimsNothing(t *testing.T) {
	k := newClaims(t, machineOf("set-orphan", "", "a"))
	k.set.UID = "former-uid" // as in a cache that shows a set which has since been deleted and created again
	if _, err := k.claim(t); !errors.Is(err, ErrCacheOld) {
		t.Errorf("Claim() = %v, want ErrCacheOld", err)
	}
	if m := k.stored(t, "set-orphan"); len(m.OwnerReferences) != 0 {
		t.Errorf("the Machine without a controller has owners %v, want none", m.OwnerReferences)
	}
}

func TestAnObjectWhoseControllerChangesBetweenTwoReadsOfTheCache(t *testing.T) {
	for name, owners := range map[string][2][]metav1.OwnerReference{
		"gets its owner":   {nil, machineOf("", "set", "").OwnerReferences},
		"loses its owner":  {machineOf("", "set", "").OwnerReferences, nil},
		"keeps its owner":  {machineOf("", "set", "").OwnerReferences, machineOf("", "set", "").OwnerReferences},
		"stays without it": {nil, nil},
	} {
		for after := 1; after <= 3; after++ {
			t.Run(fmt.Sprintf("is claimed once, or the claim fails, when it %s after read %d (MC-30)", name, after), func(t *testing.T) {
				m := machineOf("set-moving", "", "a")
				m.OwnerReferences = owners[0]
				k := newClaims(t, m)
				list, reads := k.List, 0
				k.List = func(ctx context.Context, namespace, controller string) ([]*v1alpha1.Machine, error) {
					found, err := list(ctx, namespace, controller)
					if reads++; reads == after {
						now := k.stored(t, "set-moving")
						now.OwnerReferences = owners[1]
						if err := k.Writer.Client.Update(ctx, now); err != nil {
							t.Fatal(err)
						}
					}
					return found, err
				}
				if names, err := k.claim(t); err == nil && !slices.Equal(names, []string{"set-moving"}) {
					t.Errorf("Claim() = %v", names)
				}
			})
		}
	}
}
