package ownership

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// version returns a deployment with the given UID, resource version and removals.
func version(uid, number string, removals ...string) *v1alpha1.MachineDeployment {
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: types.UID(uid), ResourceVersion: number}}
	for _, name := range removals {
		d.Spec.Removals = append(d.Spec.Removals, v1alpha1.Removal{Name: name, UID: types.UID(name)})
	}
	return d
}

func TestTheMemoryOfRemovalsThatAWatchHasShown(t *testing.T) {
	type D = *v1alpha1.MachineDeployment
	r := &Removals{}
	watch := Remembering(r, func(d D) []v1alpha1.Removal { return d.Spec.Removals })
	see := func(d D) { watch.Update(event.TypedUpdateEvent[D]{ObjectOld: d, ObjectNew: d}) }
	// holds fails the test unless exactly the removals want are remembered for d. It also fails when current differs from
	// whether d is the last version that the watch showed.
	holds := func(t *testing.T, d D, current bool, want ...string) {
		t.Helper()
		all, is := r.Of(d)
		var names []string
		for _, removal := range all {
			names = append(names, removal.Name)
		}
		if !slices.Equal(names, want) || is != current {
			t.Errorf("Of() = %v, current %v; want %v, current %v", names, is, want, current)
		}
	}
	t.Run("returns no removals for an object that the watch has not shown (F-5)", func(t *testing.T) { holds(t, version("u", "1", "a"), true) })
	t.Run("returns removals that a later version of the object lacks (F-5)", func(t *testing.T) {
		watch.Create(event.TypedCreateEvent[D]{Object: version("u", "1", "a")})
		see(version("u", "2", "b", "a"))
		see(version("u", "3"))
		holds(t, version("u", "3"), true, "b", "a")
	})
	t.Run("reports that a version of an object is current only when it is the last version that the watch has shown (F-5)", func(t *testing.T) { holds(t, version("u", "4"), false, "b", "a") })
	t.Run("forgets a removal that a controller has carried out, unless the watch has since shown a newer version of the object (F-5)", func(t *testing.T) {
		r.Keep(version("u", "2"), nil)
		holds(t, version("u", "3"), true, "b", "a")
		r.Keep(version("u", "3"), version("u", "3", "a").Spec.Removals)
		holds(t, version("u", "3"), true, "a")
	})
	t.Run("returns no removals of a deleted object for a new object of the same name (F-5)", func(t *testing.T) {
		holds(t, version("v", "5"), true)
		see(version("v", "5", "c"))
		holds(t, version("v", "5"), true, "c")
	})
	t.Run("forgets the removals of an object once the watch shows its deletion (F-5)", func(t *testing.T) {
		watch.Delete(event.TypedDeleteEvent[D]{Object: version("v", "6")})
		holds(t, version("v", "6"), true)
		r.seen.Each(func(key types.NamespacedName, _ *seenRemovals) { t.Errorf("%s is remembered", key) })
	})
}

func TestMergingTwoListsOfRemovals(t *testing.T) {
	one := v1alpha1.Removal{Name: "a", UID: "1"}
	other := v1alpha1.Removal{Name: "a", UID: "2"}
	t.Run("returns one removal for each Machine name, from the first list that has the name (F-5)", func(t *testing.T) {
		got := v1alpha1.MergeRemovals([]v1alpha1.Removal{one}, []v1alpha1.Removal{other, {Name: "b"}, {Name: "b"}})
		if len(got) != 2 || got[0] != one || got[1].Name != "b" {
			t.Errorf("merged %v", got)
		}
	})
	t.Run("returns at most as many removals as the schema allows (F-5)", func(t *testing.T) {
		var many []v1alpha1.Removal
		for i := range v1alpha1.MaxRemovals {
			many = append(many, v1alpha1.Removal{Name: fmt.Sprint(i)})
		}
		if got := v1alpha1.MergeRemovals([]v1alpha1.Removal{one}, many); len(got) != v1alpha1.MaxRemovals {
			t.Errorf("merged %d entries", len(got))
		}
	})
}
