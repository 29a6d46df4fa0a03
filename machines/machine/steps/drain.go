package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/status"
)

// The intervals at which a drain is checked again. Terminating pods end soon, and their volumes are detached soon after;
// disruption budgets take longer (MC-60).
const (
	retryEnding      = 2 * time.Second
	retryDetaching   = 5 * time.Second
	retryBlocked     = 10 * time.Second
	retryBlockedLong = 30 * time.Second
	blockedLongAfter = 5 * time.Minute
	maxListed        = 5
)

// DrainNode cordons the Node and requests the eviction of its pods. It does not wait for the evictions, nor for the pods to
// end.
func (d *Deletion) DrainNode(ctx context.Context, s *scope.Scope) (bool, error) {
	node, err := drain.Cordon(ctx, d.Nodes, s.Observed.Node, s.Now())
	if err != nil {
		return false, err
	}
	s.WroteNode(node)
	retry := retryDrain(s)
	result, known, err := d.Drains.Drain(ctx, drain.Request{
		Machine: client.ObjectKeyFromObject(s.Machine), UID: s.Machine.UID, Every: retry,
		Order: drain.Order{Node: node.Name, Mode: drainMode(s), VolumeTimeout: s.Policy.Timeouts.Volumes},
	})
	if err != nil && s.Policy.DrainOver {
		s.LeftOnNode = append(s.LeftOnNode, "pods that could not be read or evicted: "+fault.Line(err.Error()))
		return true, d.drained(ctx, s, result.Detaching)
	}
	if err != nil && len(result.Blocked) == 0 {
		return false, err
	}
	if err != nil {
		// An eviction without an answer is repeated at the same interval as an eviction that was refused.
		ctrl.LoggerFrom(ctx).Error(err, "Evicting pods failed and is repeated")
	}
	s.Detail = "evictions were requested"
	switch {
	case known:
		s.Detail = drainText(result)
		warnBlocked(s, heldText(&result))
	case s.Base.Condition(v1alpha1.ConditionDeleting).Reason == lifecycle.ReasonDraining:
		s.Detail = status.WithoutRemedy(s.Base)
	}
	if known && result.Done {
		for _, pod := range texts(result.Left()) {
			s.LeftOnNode = append(s.LeftOnNode, "pod "+pod)
		}
		return true, d.drained(ctx, s, result.Detaching)
	}
	s.RequeueWithin(retry)
	s.RequeueWithin(s.Policy.Timeouts.Drain - drain.Lasted(node, s.Now()))
	return false, nil
}

// drainMode returns how the Node is drained now.
func drainMode(s *scope.Scope) drain.Mode {
	return drain.Mode{
		Abrupt:   s.Policy.Unreachable || s.Observed.Force || s.Progress.OutOfService,
		Final:    s.Policy.DrainTimedOut,
		Over:     s.Policy.DrainOver,
		NoTarget: s.Policy.NoTarget,
	}
}

// drained records that no pod is left to evict, and whether volumes are still attached. A drain that does not wait for pods
// (Abrupt) does not check volumes either, so drained looks them up when the Node is out of service.
func (d *Deletion) drained(ctx context.Context, s *scope.Scope, detaching []string) (err error) {
	if s.Progress.OutOfService {
		if detaching, err = d.Drains.Drainer.Attached(ctx, s.Observed.Node.Name); err != nil {
			return err
		}
		s.Detail = drainText(drain.Result{Detaching: detaching})
	}
	s.Progress.Drained = true
	s.Progress.Attached = len(detaching) > 0 && mayDetach(s) && s.Policy.Timeouts.Volumes > 0
	s.Progress.DetachOver = s.Progress.Attached && detachOver(s)
	if s.Progress.DetachOver {
		for _, volume := range detaching {
			s.LeftOnNode = append(s.LeftOnNode, "volume "+volume+": it is still attached")
		}
	}
	return nil
}

// mayDetach reports whether the volumes of the Node can be detached before its server is gone: by the Node's kubelet, or by
// Kubernetes because the Node is out of service.
func mayDetach(s *scope.Scope) bool {
	return !s.Observed.Force && (!s.Policy.Unreachable || s.Progress.OutOfService)
}

// ShutOffNode puts the Node of a server that could not be started out of service, before the Node's pods are evicted. Nothing
// runs on such a server, so Kubernetes may delete the pods and detach the volumes immediately. ShutOffNode first asks the
// cloud for the server, because a running server may write to its disks. If the cloud does not answer, the Node is drained
// like any other Node.
func (d *Deletion) ShutOffNode(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Progress.ShutDownSeen = true
	if drain.IsOutOfService(s.Observed.Node) {
		s.Progress.OutOfService = true
		return true, nil
	}
	if !lookNow(ctx, s) || s.Observed.Cloud.Server == nil || s.Observed.Cloud.Server.State != cloud.ServerStopped || len(s.Observed.Cloud.Duplicates) > 0 {
		return true, nil
	}
	node, err := drain.OutOfService(ctx, d.Nodes, s.Observed.Node)
	if err != nil {
		return false, err
	}
	s.WroteNode(node)
	s.Progress.OutOfService = true
	message := fmt.Sprintf("server %s is shut down and could not be started, so its Node %s is put out of service", s.Observed.Cloud.Server.ID, node.Name)
	d.Power.decided(ctx, lifecycle.ReasonOutOfService, message)
	s.Warn(lifecycle.ReasonOutOfService, message)
	return true, nil
}

// ReturnNode removes the taint that [Deletion.ShutOffNode] put on the Node, because another client has started the server
// meanwhile, and the server may write to disks that Kubernetes would attach elsewhere. The Node is then drained like any
// other Node.
func (d *Deletion) ReturnNode(ctx context.Context, s *scope.Scope) (bool, error) {
	node, err := drain.InService(ctx, d.Nodes, s.Observed.Node)
	if err != nil {
		return false, err
	}
	s.WroteNode(node)
	s.Policy.NodeOutOfService = false
	// Drop the results of the drain: they assume that nothing runs on the Node, but its server runs again.
	d.Drains.Forget(s.Machine.UID)
	ctrl.LoggerFrom(ctx).Info("The Node is in service again: its server was started meanwhile", "node", klog.KObj(node), "server", s.Observed.Cloud.Server.ID)
	return true, nil
}

// retryDrain returns the time after which to check the drain again, given the result of the last check.
func retryDrain(s *scope.Scope) time.Duration {
	message := s.Base.Condition(v1alpha1.ConditionDeleting).Message
	blocked := strings.HasPrefix(message, status.BlockedPrefix) || strings.HasPrefix(message, stayingPrefix)
	switch {
	case !blocked:
		return retryEnding
	case s.Now().Sub(s.Machine.DeletionTimestamp.Time) < blockedLongAfter:
		return retryBlocked
	}
	return retryBlockedLong
}

// AwaitDetach waits until the volumes of the evicted pods are detached. If the server were deleted while volumes are
// attached, pods on other Nodes would get these volumes later (MC-61).
func (d *Deletion) AwaitDetach(_ context.Context, s *scope.Scope) (bool, error) {
	s.RequeueWithin(retryDetaching)
	return false, nil
}

// detachOver reports whether the time for detaching volumes has ended. That time starts when the status first shows the wait
// for volumes as the last operation.
func detachOver(s *scope.Scope) bool {
	last := s.Base.Status.LastOperation
	if last == nil || ptr.Deref(last.Description, "") != lifecycle.ReasonDetaching || last.LastUpdated == nil {
		return false
	}
	return !s.Now().Before(last.LastUpdated.Add(s.Policy.Timeouts.Volumes))
}

// The parts of the text that describes a drain.
const (
	stayingPrefix   = "pods do not leave the Node: "
	detailSeparator = "; "
)

// drainText describes what the drain waits for. The text changes only when the drain waits for something else, so that it is
// not written after each check.
func drainText(result drain.Result) string {
	var parts []string
	if held := heldText(&result); held != "" {
		parts = append(parts, held)
	}
	if len(result.Leaving) > 0 {
		parts = append(parts, status.LeavingPrefix+few(result.Leaving))
	}
	if len(result.Detaching) > 0 {
		parts = append(parts, status.DetachingPrefix+few(result.Detaching))
	}
	return strings.Join(parts, detailSeparator)
}

// few returns the first names of a sorted list. It does not count the others, because their number changes all the time.
func few(names []string) string {
	text := strings.Join(names[:min(len(names), maxListed)], ", ")
	if len(names) > maxListed {
		text += " and others"
	}
	return text
}

// heldText names the pods whose eviction is refused, and those that do not leave the Node, with the reasons; empty when there are
// none.
func heldText(result *drain.Result) string {
	var parts []string
	if len(result.Blocked) > 0 {
		parts = append(parts, status.BlockedPrefix+listed(result.Blocked))
	}
	if len(result.Staying) > 0 {
		parts = append(parts, stayingPrefix+listed(result.Staying))
	}
	return strings.Join(parts, detailSeparator)
}

// warnBlocked records an Event when pods cannot leave the Node for the first time, and again when the pods or the reasons change,
// but not at each retry. held is the text about these pods. The Event is recorded after the write of the condition that has the same
// text.
func warnBlocked(s *scope.Scope, held string) {
	before := status.WithoutRemedy(s.Base)
	if held == "" || before == held || strings.HasPrefix(before, held+detailSeparator+status.LeavingPrefix) || strings.HasPrefix(before, held+detailSeparator+status.DetachingPrefix) {
		return
	}
	s.WarnOnWrite("DrainBlocked", fmt.Sprintf("node %s: %s", s.Observed.Node.Name, held))
}

func listed(blocked []drain.Blocked) string {
	parts := texts(blocked[:min(len(blocked), maxListed)])
	if more := len(blocked) - maxListed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, detailSeparator)
}

// texts returns the names of the pods, each with the reason why it cannot leave the Node.
func texts(blocked []drain.Blocked) (out []string) {
	for _, b := range blocked {
		out = append(out, b.Pod+": "+b.Reason)
	}
	return out
}

// warnLeft records, before the server is deleted, which pods and volumes are still on the Node, each with the reason (MCM-66).
func warnLeft(ctx context.Context, s *scope.Scope) {
	reason, intro := "NodeNotEmpty", "the server is deleted, and still on its Node are: "
	if s.Policy.DrainTimedOut {
		reason, intro = "DrainTimedOut", fmt.Sprintf("the drain has lasted for %v; %s", s.Policy.Timeouts.Drain, intro)
	}
	if len(s.LeftOnNode) == 0 {
		return
	}
	s.Urgent = true
	s.Warn(reason, notes(intro, s.LeftOnNode)...)
	ctrl.LoggerFrom(ctx).Info("The server is deleted before its Node is empty", "reason", reason, "left", s.LeftOnNode)
}

// maxNote is how many bytes of text an Event may have. The API server refuses a longer one.
const maxNote = 1000

// notes returns the texts of the Events that together name all items of a list. There is more than one when one cannot hold them all.
func notes(intro string, items []string) (out []string) {
	for len(items) > 0 {
		note, n := intro+fault.Cut(items[0], maxNote-len(intro)), 1
		for ; n < len(items) && len(note)+len(detailSeparator)+len(items[n]) <= maxNote; n++ {
			note += detailSeparator + items[n]
		}
		out, items = append(out, note), items[n:]
	}
	return out
}

// TakeOutOfService makes Kubernetes delete the pods and detach the volumes of a Node whose kubelet does not answer any more,
// once it is proven that the Node's server is gone. It waits for the volumes until the volume detach timeout has ended.
func (d *Deletion) TakeOutOfService(ctx context.Context, s *scope.Scope) (bool, error) {
	node, err := drain.OutOfService(ctx, d.Nodes, s.Observed.Node)
	if err != nil {
		return false, err
	}
	s.WroteNode(node)
	attached, err := d.Drains.Drainer.Attached(ctx, s.Observed.Node.Name)
	if err != nil {
		return false, err
	}
	if len(attached) > 0 && !detachOver(s) {
		s.Last.Reason = lifecycle.ReasonDetaching
		// The Detail up to here says what the release of the ports waits for.
		s.Detail = strings.TrimPrefix(s.Detail+detailSeparator+drainText(drain.Result{Detaching: attached}), detailSeparator)
		s.RequeueWithin(retryDetaching)
		return false, nil
	}
	s.Progress.OutOfService = true
	return true, nil
}
