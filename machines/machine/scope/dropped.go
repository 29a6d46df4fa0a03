package scope

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// seen is the last known state of the fields of a Machine that only drover writes. A value of this type must not be
// changed.
type seen struct {
	// version is the Machine's resourceVersion; empty when nothing is known.
	version    string
	providerID string
	status     v1alpha1.MachineStatus
}

// seenIn returns the state of a Machine that the memory keeps.
func seenIn(m *v1alpha1.Machine) seen {
	return seen{version: m.ResourceVersion, providerID: ptr.Deref(m.Spec.ProviderID, ""), status: m.Status}
}

// PutBack restores fields that another client dropped by replacing the whole Machine, as kubectl replace and Terraform do:
// each field of the status, each condition, and spec.providerID. It can only restore fields that this process has seen. The
// reconcile continues with the restored Machine.
func (s *Scope) PutBack(ctx context.Context) error {
	memory := s.store.memory
	switch other := s.Machine.Labels[v1alpha1.LabelController] != s.store.Controller; {
	case v1alpha1.Paused(s.Machine.Annotations):
		return nil
	case other && s.Machine.DeletionTimestamp == nil:
		memory.forgetSeen(s.Machine)
		return nil
	}
	if !restore(s.Machine, memory.seenOf(s.Machine)) {
		memory.saw(s.Base)
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Restoring fields that another client has dropped from the Machine")
	return s.WriteAhead(ctx, BeforeObserving)
}

// restore restores fields that the Machine had before and lacks now. It reports whether any field was missing.
func restore(m *v1alpha1.Machine, before seen) bool {
	if before.version == "" || before.version == m.ResourceVersion {
		return false
	}
	restored := false
	if m.Spec.ProviderID == nil && before.providerID != "" {
		m.Spec.ProviderID, restored = ptr.To(before.providerID), true
	}
	status := before.status.DeepCopy()
	// Reflection also covers fields that are added to the status in the future.
	is, was := reflect.ValueOf(&m.Status).Elem(), reflect.ValueOf(status).Elem()
	for i := range is.NumField() {
		if isEmpty(is.Field(i)) && !isEmpty(was.Field(i)) {
			is.Field(i).Set(was.Field(i))
			restored = true
		}
	}
	for _, c := range status.Conditions {
		same := func(have v1alpha1.MachineCondition) bool { return have.Type == c.Type }
		if !slices.ContainsFunc(m.Status.Conditions, same) {
			m.Status.Conditions, restored = append(m.Status.Conditions, c), true
		}
	}
	return restored
}

// isEmpty reports whether a field is not set: it is zero, or a list or map without entries.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// saw remembers a Machine as it is stored. m must be the object from the cache, so that no copy is needed.
func (mem *memory) saw(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.stateOf(m).seen = seenIn(m)
}

// seenOf returns the last known state of a Machine; the zero value when no state is known.
func (mem *memory) seenOf(m *v1alpha1.Machine) seen {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	return mem.stateOf(m).seen
}

// forgetSeen drops the last known state of a Machine that belongs to another controller.
func (mem *memory) forgetSeen(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.stateOf(m).seen = seen{}
}

// forgetRemoved drops from the memory the fields that a failed write intended to remove. The API server may have carried
// out that write, and PutBack must not restore these fields then.
func (mem *memory) forgetRemoved(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	e := mem.stateOf(m)
	e.seen.status = *e.seen.status.DeepCopy()
	meant, was := reflect.ValueOf(m.Status), reflect.ValueOf(&e.seen.status).Elem()
	for i := range meant.NumField() {
		if isEmpty(meant.Field(i)) {
			was.Field(i).SetZero()
		}
	}
	if m.Spec.ProviderID == nil {
		e.seen.providerID = ""
	}
}
