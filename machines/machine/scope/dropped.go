package scope

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// PutBack restores fields that another client dropped by replacing the whole Machine, as kubectl replace and Terraform do:
// each field of the status, each condition, and spec.providerID. It can only restore fields that this process has seen. The
// reconcile continues with the restored Machine.
func (s *Scope) PutBack(ctx context.Context) error {
	switch other := s.Machine.Labels[v1alpha1.LabelController] != s.store.Controller; {
	case v1alpha1.Paused(s.Machine.Annotations):
		return nil
	case other && s.Machine.DeletionTimestamp == nil:
		s.Memory.seen = nil
		return nil
	}
	if !restore(s.Machine, s.Memory.seen) {
		s.Memory.seen = s.Base
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Restoring fields that another client has dropped from the Machine")
	return s.WriteAhead(ctx, BeforeObserving)
}

// restore restores fields that the Machine had before and lacks now. It reports whether any field was missing.
func restore(m, before *v1alpha1.Machine) bool {
	if before == nil || before.ResourceVersion == m.ResourceVersion {
		return false
	}
	restored := false
	if m.Spec.ProviderID == nil && ptr.Deref(before.Spec.ProviderID, "") != "" {
		m.Spec.ProviderID, restored = ptr.To(*before.Spec.ProviderID), true
	}
	status := before.Status.DeepCopy()
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

// forgetRemoved drops from the memory the fields that a failed write intended to remove. The API server may have carried
// out that write, and PutBack must not restore these fields then.
func (mem *Memory) forgetRemoved(m *v1alpha1.Machine) {
	if mem.seen == nil {
		return
	}
	mem.seen = mem.seen.DeepCopy()
	meant, was := reflect.ValueOf(m.Status), reflect.ValueOf(&mem.seen.Status).Elem()
	for i := range meant.NumField() {
		if isEmpty(meant.Field(i)) {
			was.Field(i).SetZero()
		}
	}
	if m.Spec.ProviderID == nil {
		mem.seen.Spec.ProviderID = nil
	}
}
