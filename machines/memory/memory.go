// Package memory holds what this process has written or seen and the informer caches do not show. A value belongs to one object,
// identified by its namespace, name and UID, and ends with the object. A new process starts without any of it.
package memory

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Of holds a T for each object. The zero value is ready for use. All methods are safe for concurrent use.
type Of[T any] struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry[T]
}

type entry[T any] struct {
	uid   types.UID
	value T
}

// Of returns what is remembered about an object: a zero T at first. before is the UID of another object with the same name that was
// remembered until now, and is forgotten by this call; empty when there was none.
//
// The value has no lock. Only one goroutine at a time may use it, as the reconcile of the object does; other callers use [Of.Do].
func (m *Of[T]) Of(o metav1.Object) (value *T, before types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(o)
}

// Do calls f with what is remembered about an object: a zero T at first. f may change it. Calls of Do and [Of.Named] never run at the same
// time, so f must not call the memory.
func (m *Of[T]) Do(o metav1.Object, f func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, _ := m.of(o)
	f(value)
}

// Named is [Of.Do] for the object with the given name, whatever its UID. It does nothing when no such object is remembered.
func (m *Of[T]) Named(key types.NamespacedName, f func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[key]; e != nil {
		f(&e.value)
	}
}

// Each calls f for each remembered object, in any order. f must not call the memory.
func (m *Of[T]) Each(f func(types.NamespacedName, *T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.entries {
		f(key, &e.value)
	}
}

// Forget forgets the object with the given name, because it is gone. It returns the object's UID; empty when nothing was remembered.
func (m *Of[T]) Forget(key types.NamespacedName) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil {
		return ""
	}
	delete(m.entries, key)
	return e.uid
}

// of returns the value of an object; see [Of.Of]. The caller must hold mu.
func (m *Of[T]) of(o metav1.Object) (value *T, before types.UID) {
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	e := m.entries[key]
	if e != nil && e.uid == o.GetUID() {
		return &e.value, ""
	}
	if e != nil {
		before = e.uid
	}
	if m.entries == nil {
		m.entries = map[types.NamespacedName]*entry[T]{}
	}
	e = &entry[T]{uid: o.GetUID()}
	m.entries[key] = e
	return &e.value, before
}
