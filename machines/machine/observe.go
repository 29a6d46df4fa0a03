package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/steps"
	"github.com/drover-project/drover/machines/safety/reach"
)

// errCacheOld ends a reconcile whose cache shows the Machine's Node in a state from before this process's last write. A write
// based on that state would be refused, or would repeat the last write.
var errCacheOld = errors.New("the cache is older than the last write")

// observer gathers the facts of a reconcile: the Machine, its server, its Node, its group, and the facts that follow from these and
// the clock. It takes no step, and its clients can only read.
type observer struct {
	// control reads Machines and their owners, and target reads Nodes; both read from caches. liveControl and liveTarget read the
	// same objects from the API servers.
	control, target, liveControl, liveTarget client.Reader

	cloud    cloud.Cloud
	retries  *steps.Retries
	kinds    Kinds
	reach    *reach.Watch
	nodes    steps.NodeOptions
	timeouts lifecycle.Timeouts
}

// observe gathers the facts. It looks up nothing for a Machine that is ignored.
func (o *observer) observe(ctx context.Context, s *scope.Scope) error {
	s.ReadMachine()
	if s.Observed.LeftAlone() {
		return nil
	}
	o.observeCloud(ctx, s)
	if err := o.observeDuplicates(ctx, &s.Observed); err != nil {
		return err
	}
	if err := o.observeNode(ctx, s); err != nil {
		return err
	}
	s.ReadMachine()
	forced := s.ForcedFor()
	s.Policy.ForcedDrainOver, s.Policy.ForceOver = forced >= scope.ForcedDrain, forced >= scope.ForcedDeletion
	if err := o.observeGroup(ctx, s); err != nil {
		return err
	}
	if err := o.observeStart(ctx, s); err != nil {
		return err
	}
	o.observeKinds(ctx, s)
	return nil
}

func (o *observer) observeCloud(ctx context.Context, s *scope.Scope) {
	seen := &s.Observed
	instance, err := o.cloud.Instance(ctx, s.Machine)
	if err != nil {
		seen.CloudErr = fault.Of(err)
		seen.SpecUnreadable = seen.CloudErr.Class == fault.Invalid
		return
	}
	s.Instance = instance
	s.Warnings = slices.Concat(instance.Warnings(), bootstrap.Warnings(instance.Config()), bootstrap.IgnoredAnnotations(s.Machine.Annotations))
	for _, key := range v1alpha1.WithheldNodeLabels(o.nodes.AllowedLabels, s.Machine.Labels, s.Machine.Spec.Metadata.Labels) {
		s.Warnings = append(s.Warnings, fmt.Sprintf("label %s: is not put on the Node, because --allowed-node-labels does not list it", key))
	}
	if seen.Cloud, err = instance.Observe(ctx); err != nil {
		seen.CloudErr = fault.Of(err)
	}
}

// observeDuplicates chooses among several servers of a Machine that does not name a server yet. An ACTIVE server whose Node
// has registered is kept, because it works already and its name is in use. If no server has a Node, the server that the cloud
// driver has chosen is kept.
func (o *observer) observeDuplicates(ctx context.Context, seen *lifecycle.Observed) error {
	if seen.Named || seen.Cloud.Server == nil || len(seen.Cloud.Duplicates) == 0 {
		return nil
	}
	for _, server := range append([]*cloud.Server{seen.Cloud.Server}, seen.Cloud.Duplicates...) {
		found, err := o.nodesBy(ctx, scope.IndexNodeServer, string(server.Key))
		if err != nil {
			return err
		}
		if len(found) > 0 && server.State == cloud.ServerActive {
			seen.Cloud.Server = server
			return nil
		}
	}
	return nil
}

// observeGroup reads the timeouts, and, if a server may be needed, whether the group's back-off lets the Machine create one.
func (o *observer) observeGroup(ctx context.Context, s *scope.Scope) error {
	seen, policy := &s.Observed, &s.Policy
	if seen.Joined && !seen.Deleting {
		return nil
	}
	var err error
	if s.Group, err = o.groupOf(ctx, s.Machine); err != nil {
		return err
	}
	var unreadable []string
	policy.Timeouts, unreadable = o.timeoutsOf(s.Machine, s.Group)
	s.Warnings = append(s.Warnings, unreadable...)
	policy.BackingOff = s.Memory.Backoff.Until(s.Machine, s.Now()).After(s.Now())
	creates := seen.CloudErr == nil && seen.Cloud.Synced && seen.Cloud.Server == nil && !seen.Named && !seen.Deleting
	if creates && !seen.Initializing && !policy.BackingOff {
		if policy.Permission, err = o.retries.TakeTurn(ctx, s); err != nil {
			return err
		}
	}
	o.observeDeadline(s)
	if err := o.observeUnseenNode(ctx, s); err != nil {
		return err
	}
	return o.observeDrain(ctx, s)
}

// observeDeadline computes the time until which the server may become a Node. The join timeout begins when this process first
// saw the server, because the cloud's creation time is from another clock. While the cloud's lists fail, the timeout does not
// end: certificates are approved only for a server that the cloud shows.
func (o *observer) observeDeadline(s *scope.Scope) {
	server, policy := s.Observed.Cloud.Server, &s.Policy
	if server == nil || policy.Timeouts.Join <= 0 || server.Seen.IsZero() {
		return
	}
	began := server.Seen
	if _, trusted := o.reach.Stale(); trusted.After(began) {
		// The time before the API servers answered again does not count: the Node could not register, or drover could not see
		// it.
		began = trusted
	}
	policy.JoinDeadline = began.Add(policy.Timeouts.Join)
	policy.Late = s.Observed.Cloud.Outdated == "" && !s.Now().Before(policy.JoinDeadline)
}

// observeUnseenNode looks up live whether a Node has registered for a server that would otherwise be thrown away: because its
// join timeout has ended, or because it is in ERROR. The watch of Nodes may be late.
func (o *observer) observeUnseenNode(ctx context.Context, s *scope.Scope) error {
	seen := &s.Observed
	server := seen.Cloud.Server
	if seen.Deleting || seen.Joined || seen.Node != nil || server == nil || !s.Policy.Late && server.State != cloud.ServerError {
		return nil
	}
	candidates, err := o.unseenNode(ctx, s.Machine.ServerName())
	if err != nil || len(candidates) == 0 {
		return err
	}
	return o.matchNode(ctx, s, candidates)
}

// observeDrain decides whether the pods of a Machine that is being deleted are to be evicted first.
func (o *observer) observeDrain(ctx context.Context, s *scope.Scope) error {
	seen, policy := &s.Observed, &s.Policy
	if !seen.Deleting || seen.Node == nil {
		return nil
	}
	_, skip := seen.Node.Annotations[v1alpha1.AnnotationSkipEviction]
	policy.DrainTimedOut, policy.DrainOver = drain.TimedOut(seen.Node, policy.Timeouts.Drain, s.Now())
	alive := !seen.Cloud.Gone && (seen.Cloud.Server == nil || seen.Cloud.Server.State != cloud.ServerDeleting)
	policy.DrainDue = !skip && !policy.ForcedDrainOver && alive && policy.Timeouts.Drain > 0
	if !policy.DrainDue {
		return nil
	}
	target, err := o.hasTarget(ctx, seen.Node)
	policy.NoTarget = !target
	return err
}

// hasTarget reports whether the pods of a Node could be scheduled on another Node. If no other Node exists or is expected, a
// disruption budget can only keep the pods where they are (MC-60). Once the drain has begun, a Node that somebody else has cordoned
// counts too, because it may accept pods again before the drain times out. Nodes that drover drains never do (F-140).
func (o *observer) hasTarget(ctx context.Context, node *corev1.Node) (bool, error) {
	states := []string{scope.NodeOpen}
	if drain.Begun(node) {
		states = append(states, scope.NodeClosed)
	}
	for _, state := range states {
		var list corev1.NodeList
		// Of two Nodes, one is another Node.
		if err := o.target.List(ctx, &list, client.MatchingFields{scope.IndexNodeState: state}, client.Limit(2), client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing nodes: %w", err)
		}
		if slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Name != node.Name }) {
			return true, nil
		}
	}
	var coming v1alpha1.MachineList
	if err := o.control.List(ctx, &coming, client.MatchingFields{scope.IndexMachineComing: scope.Coming}, client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Machines: %w", err)
	}
	return len(coming.Items) > 0, nil
}

// Kinds reports whether a deletion must wait because one of drover's own CustomResourceDefinitions is being deleted or is
// missing. Deleting a CRD deletes Machines that no operator meant to delete.
type Kinds interface {
	// Withheld returns why the deletion of a Machine must wait; empty when it may go on, and an error when that is not known. begun
	// reports whether the deletion was allowed to begin earlier. If it was not, the answer is based on reads that started after the
	// call.
	Withheld(ctx context.Context, m *v1alpha1.Machine, begun bool) (why string, err error)
}

// observeKinds asks the keeper of drover's CRDs whether the Machine's deletion may continue. It is the last observation, directly
// before the steps.
func (o *observer) observeKinds(ctx context.Context, s *scope.Scope) {
	if o.kinds == nil || !s.Observed.Deleting {
		return
	}
	why, err := o.kinds.Withheld(ctx, s.Machine, s.Memory.DeletionBegun)
	switch {
	case err != nil:
		s.Policy.Withheld, s.Policy.WithheldMessage = lifecycle.ReasonKindUnknown, err.Error()
	case why != "":
		s.Policy.Withheld, s.Policy.WithheldMessage = lifecycle.ReasonKindBeingDeleted, why
	}
	s.Memory.DeletionBegun = s.Policy.Withheld == ""
}

// groupOf reads the Machine's group from the caches. It ignores an owner that does not exist, or that has another UID than
// the owner reference.
func (o *observer) groupOf(ctx context.Context, m *v1alpha1.Machine) (scope.Group, error) {
	g := scope.Group{Holder: m}
	var set v1alpha1.MachineSet
	found, err := o.owner(ctx, m, v1alpha1.MachineSetKind.Kind, &set)
	if err != nil || !found {
		return g, err
	}
	g.Holder, g.Set = &set, set.UID
	// A set whose revision cannot be parsed counts as the oldest set.
	g.Revision, _ = strconv.ParseInt(set.Annotations[v1alpha1.AnnotationRevision], 10, 64)
	var d v1alpha1.MachineDeployment
	if found, err = o.owner(ctx, &set, v1alpha1.MachineDeploymentKind.Kind, &d); err == nil && found {
		g.Holder = &d
	}
	return g, err
}

// owner reads the controller owner of an object, if the owner has the given kind, and reports whether it exists.
func (o *observer) owner(ctx context.Context, of client.Object, kind string, into client.Object) (bool, error) {
	ref := metav1.GetControllerOf(of)
	if ref == nil || ref.Kind != kind {
		return false, nil
	}
	err := o.control.Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: ref.Name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", kind, ref.Name, err)
	}
	return into.GetUID() == ref.UID, nil
}

// timeoutsOf returns the timeouts from the annotations of the Machine, otherwise from those of its deployment (its set, if
// it has no deployment), otherwise the defaults. It skips each annotation that cannot be parsed, and describes it in wrong.
// It is called in each reconcile, so that a running drain can be shortened.
func (o *observer) timeoutsOf(m *v1alpha1.Machine, g scope.Group) (t lifecycle.Timeouts, wrong []string) {
	t = o.timeouts
	for key, into := range map[string]*time.Duration{
		v1alpha1.AnnotationDrainTimeout: &t.Drain, v1alpha1.AnnotationVolumeDetachTimeout: &t.Volumes, v1alpha1.AnnotationJoinTimeout: &t.Join,
	} {
		for _, o := range []client.Object{m, g.Holder} {
			text, ok := o.GetAnnotations()[key]
			if !ok {
				continue
			}
			d, err := time.ParseDuration(text)
			if err == nil && d >= 0 {
				*into = d
				break
			}
			wrong = append(wrong, fmt.Sprintf("annotation %s: %q is not a duration such as 30m", key, text))
		}
	}
	return t, wrong
}

// observeStart computes the state of the start of a server that is shut down. For any other server it does nothing.
func (o *observer) observeStart(ctx context.Context, s *scope.Scope) error {
	server := s.Observed.Cloud.Server
	if server == nil || server.State != cloud.ServerStopped && server.State != cloud.ServerStarting {
		return nil
	}
	group, err := o.groupOf(ctx, s.Machine)
	if err != nil {
		return err
	}
	s.Policy.Start = lifecycle.JudgeStart(lifecycle.StartInput{
		Cloud: &s.Observed.Cloud, Record: s.Machine.Status.ServerStart, Unsent: s.StartUnsent(),
		Refrain: refrains(s.Machine) || refrains(group.Holder), Now: s.Now(),
	})
	return nil
}

// refrainNow reads the Machine's group from the API server, because the cache may be late. It reports whether an operator
// does not want drover to start the Machine's server. It also returns true when the group is gone, or when another object has
// its name.
func (o *observer) refrainNow(ctx context.Context, m *v1alpha1.Machine) (bool, error) {
	group, err := o.groupOf(ctx, m)
	if err != nil {
		return false, err
	}
	var live client.Object = &v1alpha1.Machine{}
	switch group.Holder.(type) {
	case *v1alpha1.MachineDeployment:
		live = &v1alpha1.MachineDeployment{}
	case *v1alpha1.MachineSet:
		live = &v1alpha1.MachineSet{}
	}
	err = o.liveControl.Get(ctx, client.ObjectKeyFromObject(group.Holder), live)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the group of Machine %s before its server is started: %w", m.Name, err)
	}
	return err != nil || live.GetUID() != group.Holder.GetUID() || refrains(live), nil
}

// refrains reports whether an annotation or field of the object tells drover not to touch its Machines, or not to repair
// them.
func refrains(o client.Object) bool {
	return v1alpha1.Paused(o.GetAnnotations()) || v1alpha1.SkipsHealth(o.GetAnnotations())
}
