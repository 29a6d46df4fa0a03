package memory

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func object(name, uid string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}
}

func TestAMemoryOfObjects(t *testing.T) {
	var m Of[int]
	holds := func(t *testing.T, want map[string]int) {
		t.Helper()
		got := map[string]int{}
		m.Each(func(key types.NamespacedName, value *int) { got[key.Name] = *value })
		if len(got) != len(want) {
			t.Errorf("remembered are %v, want %v", got, want)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("remembered are %v, want %v", got, want)
			}
		}
	}
	t.Run("keeps the value of each object between calls", func(t *testing.T) {
		m.Do(object("a", "1"), func(v *int) { *v = 1 })
		m.Do(object("b", "2"), func(v *int) { *v = 2 })
		v, before := m.Of(object("a", "1"))
		if *v++; before != "" {
			t.Errorf("the object %s was forgotten, want none", before)
		}
		holds(t, map[string]int{"a": 2, "b": 2})
	})
	t.Run("starts with a zero value for another object of the same name, and reports the UID of the one before", func(t *testing.T) {
		if v, before := m.Of(object("a", "3")); *v != 0 || before != "1" {
			t.Errorf("the value is %d, and the object before was %q", *v, before)
		}
		holds(t, map[string]int{"a": 0, "b": 2})
	})
	t.Run("finds an object by its name, and calls nothing for a name that is not remembered", func(t *testing.T) {
		m.Named(types.NamespacedName{Namespace: "ns", Name: "b"}, func(v *int) { *v = 5 })
		m.Named(types.NamespacedName{Namespace: "ns", Name: "c"}, func(*int) { t.Error("called for an unknown object") })
		holds(t, map[string]int{"a": 0, "b": 5})
	})
	t.Run("forgets an object that is gone, and returns its UID once", func(t *testing.T) {
		key := types.NamespacedName{Namespace: "ns", Name: "b"}
		if first, again := m.Forget(key), m.Forget(key); first != "2" || again != "" {
			t.Errorf("Forget returned %q, then %q", first, again)
		}
		holds(t, map[string]int{"a": 0})
	})
}
