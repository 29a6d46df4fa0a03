package steps

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/ownership"
)

const (
	// repeatEvery is the interval at which a failed write of a group's status is repeated.
	repeatEvery = 5 * time.Second
	// groupWriteTimeout bounds one write of a group's status.
	groupWriteTimeout = 30 * time.Second
)

// groupWrites tracks which groups are being written, and which writes have failed and must be repeated. Only one goroutine at
// a time writes a group, so that an older status never replaces a newer one.
type groupWrites struct {
	mu sync.Mutex
	// writing holds the groups that are being written. The value reports whether the group has changed since the write began.
	writing map[types.UID]bool
	// failed holds, for each group whose last write failed, the deployment or set to which the back-offs must be written.
	failed map[types.UID]client.Object
	// signal receives an element when a write has failed, and so starts the repetition of failed writes.
	signal chan struct{}
}

func newGroupWrites() *groupWrites {
	return &groupWrites{writing: map[types.UID]bool{}, failed: map[types.UID]client.Object{}, signal: make(chan struct{}, 1)}
}

// begin reports whether the caller must write the group. It returns false while another goroutine writes the group; that
// goroutine then also writes the latest change.
func (w *groupWrites) begin(group types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, busy := w.writing[group]; busy {
		w.writing[group] = true
		return false
	}
	w.writing[group] = false
	return true
}

// end records the end of a write that begin allowed. It reports whether the caller must write the group again immediately,
// because the group has changed meanwhile.
func (w *groupWrites) end(holder client.Object, err error) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	group := holder.GetUID()
	if err != nil {
		delete(w.writing, group)
		w.failed[group] = holder
		select {
		case w.signal <- struct{}{}:
		default:
		}
		return false
	}
	delete(w.failed, group)
	if w.writing[group] {
		w.writing[group] = false
		return true
	}
	delete(w.writing, group)
	return false
}

// toRepeat returns the deployments and sets whose last write failed.
func (w *groupWrites) toRepeat() []client.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.failed))
}

// Start repeats failed writes of groups until ctx ends. It cannot rely on an event to repeat such a write: the Machine that
// caused the write may be gone, and the group may not change again.
func (r *Retries) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.writes.signal:
		}
		// The only possible error is that of ctx.
		_ = wait.PollUntilContextCancel(ctx, repeatEvery, false, r.repeatWrites)
	}
}

// repeatWrites repeats each failed write, and reports whether all of them succeeded.
func (r *Retries) repeatWrites(ctx context.Context) (done bool, err error) {
	for _, holder := range r.writes.toRepeat() {
		r.writeHolder(ctx, holder)
	}
	return len(r.writes.toRepeat()) == 0, nil
}

// NeedLeaderElection returns true: only the leader writes groups.
func (r *Retries) NeedLeaderElection() bool { return true }

// writeHolder writes the group's back-offs and the outcomes of its joins to the status of its deployment or set. It logs an
// error; Start repeats the write.
func (r *Retries) writeHolder(ctx context.Context, holder client.Object) {
	if !r.writes.begin(holder.GetUID()) {
		return
	}
	for {
		err := r.applyHolder(ctx, holder)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The back-offs of a group could not be written; the write is repeated", "group", klog.KObj(holder))
		}
		if !r.writes.end(holder, err) {
			return
		}
	}
}

// applyHolder tries once to write the status, unless it equals the stored status.
func (r *Retries) applyHolder(ctx context.Context, holder client.Object) error {
	status, unwritten := r.Groups.Status(holder)
	if !unwritten {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, groupWriteTimeout)
	defer cancel()
	writer := ownership.Writer{Client: r.client, FieldManager: scope.FieldOwner}
	err := writer.ApplyStatus(ctx, holder, &status)
	if len(status.JoinOutcomes) > 0 && apierrors.IsInternalError(err) {
		// The CRD in the cluster may be from a release of drover without the field joinOutcomes. In that case the API server
		// answers 500 and stores nothing.
		older := status
		older.JoinOutcomes = nil
		err = writer.ApplyStatus(ctx, holder, &older)
	}
	if err == nil {
		r.Groups.Written(holder, status)
	}
	return err
}
