package scope

import (
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/machine/status"
)

// longestLag is how long drover rejects a cache that is older than its own last write. After that it uses the cache
// nevertheless: when a backup of etcd was restored, resource versions start again at a lower number, and the cache only seems
// older.
const longestLag = time.Minute

// Memory is what this process remembers of one Machine beside the caches: its last writes, and the time since which it has seen something.
// Only the Machine's reconcile uses it, and a work queue never runs two reconciles of one Machine at the same time.
type Memory struct {
	// Backoff is the Machine's own wait after a failure.
	Backoff backoff.Machine
	// DeletionBegun reports whether drover's CRDs allowed the Machine's deletion when this process last checked them.
	DeletionBegun bool

	machine, node ownWrite
	// unwritten is the time since which a change that is not urgent waits to be written; zero when no change waits.
	unwritten time.Time
	// forced is when this process first saw that the deletion is forced; zero when it is not.
	forced time.Time
	// seen is the Machine as this process last read or wrote it; nil when it is not known. It must not be changed.
	seen *v1alpha1.Machine
	// unsent is the time of a start of the server that was recorded in the Machine's status, and whose request this process
	// has not sent to the cloud yet; zero when there is no such start.
	unsent time.Time
	// ended is when this process removed the last finalizer; zero when it did not. It is needed because the answer to that
	// write contains no new resource version.
	ended time.Time
	// additions are the recent additions to the Node with the UID addedTo, by what was added.
	additions map[string]additions
	addedTo   types.UID
}

// ownWrite is the version of an object after a write, and the time of the write.
type ownWrite struct {
	uid     types.UID
	version string
	at      time.Time
}

// newer reports whether the write o is newer than the object in the cache. It compares resource versions as numbers:
// Kubernetes guarantees since 1.35 that they can be compared, and older API servers use the revisions of etcd, which can be
// compared, too.
func (o ownWrite) newer(cached client.Object, now time.Time) bool {
	if o.uid != cached.GetUID() || now.Sub(o.at) > longestLag {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.version, cached.GetResourceVersion())
	return err == nil && order > 0
}

// wroteMachine records a write of the Machine. After the write, no change of the Machine waits to be written. m must not be
// changed any more.
func (mem *Memory) wroteMachine(m *v1alpha1.Machine, now time.Time) {
	mem.machine, mem.unwritten, mem.seen = ownWrite{m.UID, m.ResourceVersion, now}, time.Time{}, m
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		mem.ended = now
	}
}

// cacheOld reports whether the cache shows the Machine in a state from before this process's last write, or shows a Machine that is gone
// since that write.
func (mem *Memory) cacheOld(m *v1alpha1.Machine, now time.Time) bool {
	ended := !mem.ended.IsZero() && now.Sub(mem.ended) <= longestLag
	return ended || mem.machine.newer(m, now)
}

// late returns for how long a change of the Machine should have been written already; negative while it may still wait.
func (mem *Memory) late(m *v1alpha1.Machine, now time.Time) time.Duration {
	if mem.unwritten.IsZero() {
		mem.unwritten = now
	}
	return now.Sub(mem.unwritten) - status.MaxDelay(m)
}

// When this process has added a label, an annotation or a taint to a Node mostAdditions times, each within contestWindow of the time
// before, another program removes it. From then on it is added once in contestPause.
const (
	mostAdditions = 3
	contestWindow = 10 * time.Minute
	contestPause  = time.Hour
)

// additions are the recent additions of one label, annotation or taint to a Node.
type additions struct {
	count int
	last  time.Time
}

// contested reports whether another program keeps removing a label, an annotation or a taint, so that it must not be added now.
func (a additions) contested(now time.Time) bool {
	return a.count >= mostAdditions && now.Sub(a.last) < contestPause
}

// Contested reports whether another program keeps removing what mark names from the Node with the given UID, so that it must not be added
// now. It is known to this process only, so a new leader tries again.
func (s *Scope) Contested(node types.UID, mark string) bool {
	return s.Memory.addedTo == node && s.Memory.additions[mark].contested(s.Now())
}

// Added records that the marks were added to the Node with the given UID.
func (s *Scope) Added(node types.UID, marks []string) {
	mem, now := s.Memory, s.Now()
	if mem.additions == nil || mem.addedTo != node {
		mem.additions, mem.addedTo = map[string]additions{}, node
	}
	for _, mark := range marks {
		a := mem.additions[mark]
		if a.count < mostAdditions && now.Sub(a.last) > contestWindow {
			a.count = 0
		}
		mem.additions[mark] = additions{min(a.count+1, mostAdditions), now}
	}
}

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
