package scope

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// seen is what this process last saw, or wrote itself, of what only drover writes into a Machine. It must not be changed.
type seen struct {
	// version is the Machine's resourceVersion; empty: nothing was seen.
	version    string
	providerID string
	status     v1alpha1.MachineStatus
}

// seenIn returns what is to be remembered of a Machine.
func seenIn(m *v1alpha1.Machine) seen {
	return seen{version: m.ResourceVersion, providerID: ptr.Deref(m.Spec.ProviderID, ""), status: m.Status}
}

// PutBack writes again what a client has dropped that replaced the whole Machine, such as kubectl replace or Terraform: each
// field of the status, each condition, and spec.providerID. Only what this process has seen can be put back. The reconcile goes
// on with the Machine as it was.
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
	ctrl.LoggerFrom(ctx).Info("Putting back what another client has dropped from the Machine")
	return s.WriteAhead(ctx, BeforeObserving)
}

// restore fills what the Machine lacks of what was seen before. It reports whether anything was missing.
func restore(m *v1alpha1.Machine, before seen) bool {
	if before.version == "" || before.version == m.ResourceVersion {
		return false
	}
	restored := false
	if m.Spec.ProviderID == nil && before.providerID != "" {
		m.Spec.ProviderID, restored = ptr.To(before.providerID), true
	}
	status := before.status.DeepCopy()
	// By reflection, so that a field that is added to the status is put back too.
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

// saw remembers a Machine as it is stored, which must be the cache's own object: then remembering it takes no memory.
func (mem *memory) saw(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.of(m).seen = seenIn(m)
}

// seenOf returns what was last seen of a Machine; zero when nothing was.
func (mem *memory) seenOf(m *v1alpha1.Machine) seen {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	return mem.of(m).seen
}

// forgetSeen drops what was seen of a Machine that another controller looks after.
func (mem *memory) forgetSeen(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.of(m).seen = seen{}
}

// forgetRemoved drops what a failed write would have removed from what was seen: it may have been carried out.
func (mem *memory) forgetRemoved(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	e := mem.of(m)
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
