package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// unreachableAfter is how long a node must not have been Ready for its kubelet to count as gone (reference rulings).
const unreachableAfter = 5 * time.Minute

// facts are what the table decides by. The later ones become true in the course of a pass.
type facts struct {
	paused, deleting, initializing, force bool
	// withheld is the reason why the deletion must not go on; empty when it may.
	withheld string
	// elsewhere: the Machine is another program's to look after.
	elsewhere bool
	// finalizers: all that a living Machine must bear are there. anyFinalizer: one of ours is.
	finalizers, anyFinalizer        bool
	serverFinalizer, cloudFinalizer bool
	// owned: a set controls the Machine and would replace it.
	owned bool
	// named: spec.providerID is recorded. hadServer: something says that a server was made once. placed: the status records
	// the project and region that the Machine's resources are made in.
	named, hadServer, placed bool
	// joined: status.nodeRef is recorded.
	joined bool

	// cloudErr is why the cloud cannot be asked; then cloud says nothing. specUnreadable: because of the spec alone.
	cloudErr       *fault.Error
	specUnreadable bool
	cloud          cloud.Facts
	// strayed: the Machine names another server than the one it has, which no longer is.
	strayed bool
	// leaseOld: another process may be the leader by now. It is looked at anew before each step.
	leaseOld bool
	// backingOff: an earlier failure of the Machine's own forbids another attempt yet. permission is that of its group.
	backingOff bool
	permission backoff.Permission
	// late: the server has had the whole join timeout.
	late bool

	// node is the Machine's Node; taken says why a Node of its name is not. registeredAnew: it is another object than the
	// one that joined.
	node           *corev1.Node
	taken          string
	registeredAnew bool
	// started: the first start of the Node is complete, and that is recorded.
	started bool
	// drainDue: the node's pods are to be evicted before the server goes. unreachable: its kubelet does not answer.
	// timedOut: the time for the drain is over.
	drainDue, unreachable, timedOut bool

	userData, ports, floatingIP, synced bool
	// attached: volumes are still attached to the empty node; detachOver: they have had their time.
	drained, attached, detachOver bool
	// cloudRefused: what the deletion asks of the cloud failed in this pass. serverGone: the server's end is proven.
	cloudRefused, serverGone                    bool
	released, outOfService, nodeGone, tokenGone bool
}

// ownFinalizers are those that drover puts on a Machine, or removes in the end.
var ownFinalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode, v1alpha1.FinalizerFloatingIP}

// ofMachine reads the facts that stand in the object itself.
func ofMachine(m *v1alpha1.Machine) facts {
	has := func(name string) bool { return slices.Contains(m.Finalizers, name) }
	f := facts{
		paused:          v1alpha1.Paused(m.Annotations),
		deleting:        m.DeletionTimestamp != nil,
		initializing:    m.Annotations[v1alpha1.AnnotationInitializers] != "",
		force:           m.Annotations[v1alpha1.AnnotationForceDelete] == "true",
		finalizers:      has(v1alpha1.FinalizerServer) && has(v1alpha1.FinalizerNode),
		anyFinalizer:    slices.ContainsFunc(ownFinalizers, has),
		serverFinalizer: has(v1alpha1.FinalizerServer),
		cloudFinalizer:  has(v1alpha1.FinalizerServer) || has(v1alpha1.FinalizerFloatingIP),
		owned:           metav1.GetControllerOf(m) != nil,
		named:           namedServer(m) != "",
		joined:          m.Status.NodeRef != nil,
	}
	f.hadServer = ptr.Deref(m.Spec.ProviderID, "") != "" || f.joined || recordsMore(m)
	return f
}

// leftAlone: nothing is looked up for the Machine, and nothing written.
func (f *facts) leftAlone() bool {
	return f.paused || f.elsewhere && !f.deleting || f.deleting && !f.anyFinalizer
}

// observe gathers the facts of a pass: the object, the cloud's inventory, the Node, and what the group says.
func (r *Reconciler) observe(ctx context.Context, p *pass) error {
	p.facts = ofMachine(p.m)
	f := &p.facts
	f.elsewhere = p.m.Labels[v1alpha1.LabelController] != r.Name
	if f.leftAlone() {
		return nil
	}
	r.observeCloud(ctx, p)
	if err := r.observeTwins(ctx, p); err != nil {
		return err
	}
	if err := r.observeNode(ctx, p); err != nil {
		return err
	}
	if err := r.observeGroup(ctx, p); err != nil {
		return err
	}
	r.observeKinds(ctx, p)
	return nil
}

func (r *Reconciler) observeCloud(ctx context.Context, p *pass) {
	f := &p.facts
	instance, err := r.Cloud.Instance(ctx, p.m)
	if err != nil {
		f.cloudErr = fault.Of(err)
		f.specUnreadable = f.cloudErr.Class == fault.Invalid
		return
	}
	p.instance = instance
	if f.cloud, err = instance.Observe(ctx); err != nil {
		f.cloudErr = fault.Of(err)
	}
	f.placed = recordsPlace(p.m, &f.cloud)
	if s := f.cloud.Server; s != nil && f.named {
		f.strayed = namedServer(p.m) != strings.ToLower(s.ID)
	}
	known := f.cloudErr == nil && f.cloud.Synced && f.cloud.Held == "" && f.cloud.Unknown == ""
	f.serverGone = known && f.cloud.Server == nil && (f.cloud.Gone || !f.named)
}

// observeTwins chooses among several servers of a Machine that names none yet: the one whose Node is there stays (design
// §3), since it works already and its name is taken. The cloud's own choice holds otherwise.
func (r *Reconciler) observeTwins(ctx context.Context, p *pass) error {
	f := &p.facts
	if f.named || f.cloud.Server == nil || len(f.cloud.Twins) == 0 {
		return nil
	}
	for _, s := range append([]*cloud.Server{f.cloud.Server}, f.cloud.Twins...) {
		nodes, err := r.nodesBy(ctx, indexNodeServer, strings.ToLower(s.ID))
		if err != nil {
			return err
		}
		if len(nodes) > 0 && s.State == cloud.ServerActive {
			f.cloud.Server = s
			return nil
		}
	}
	return nil
}

// livesElsewhere reports whether an owner label has the UID of another Machine that exists.
func (r *Reconciler) livesElsewhere(ctx context.Context, m *v1alpha1.Machine, mark string) (bool, error) {
	if mark == "" || mark == string(m.UID) {
		return false, nil
	}
	var list v1alpha1.MachineList
	if err := r.Control.GetClient().List(ctx, &list, client.MatchingFields{indexMachineUID: mark}); err != nil {
		return false, fmt.Errorf("looking for the Machine with UID %s: %w", mark, err)
	}
	return len(list.Items) > 0, nil
}

// observeNode looks for the Node of the Machine's server: the one that the cloud shows as the Machine's, or has shown. What
// spec.providerID says makes no Node the Machine's; without a server only one with the Machine's owner label is.
func (r *Reconciler) observeNode(ctx context.Context, p *pass) error {
	f := &p.facts
	if f.cloud.Server == nil && f.cloud.Foreign != "" {
		return nil
	}
	s := matcherOf(p)
	candidates, err := r.candidates(ctx, s)
	if err != nil {
		return err
	}
	if f.node, f.taken = s.match(candidates); f.node == nil {
		return nil
	}
	if err := r.checkOwner(ctx, p, s); err != nil || f.node == nil {
		return err
	}
	if r.writes.cacheOld(p.m, f.node, r.Clock.Now()) {
		return errCacheOld
	}
	ref := p.m.Status.NodeRef
	f.registeredAnew = ref != nil && ref.UID != "" && ref.UID != f.node.UID
	f.started = r.hasStarted(p.base, f.node)
	f.unreachable = unreachable(f.node, r.Clock.Now())
	return nil
}

// matcherOf returns what decides which Node is the Machine's: the server that the cloud shows, or has shown.
func matcherOf(p *pass) nodeMatcher {
	s := nodeMatcher{machine: p.m, server: p.facts.cloud.Had}
	if server := p.facts.cloud.Server; server != nil {
		s.server, s.name, s.created, s.adopted = server.ID, server.Name, server.Created, server.Adopted
	}
	return s
}

// checkOwner drops the Node that was found when another Machine has it: one that exists and that the Node's owner label
// names, or an older one that the Node may as well belong to.
func (r *Reconciler) checkOwner(ctx context.Context, p *pass, s nodeMatcher) error {
	f := &p.facts
	if s.owned(f.node) {
		return nil
	}
	owner := f.node.Labels[v1alpha1.LabelOwnedBy]
	exists, err := r.livesElsewhere(ctx, p.m, owner)
	switch {
	case err != nil:
		return err
	case exists:
		f.taken = fmt.Sprintf("node %s belongs to another Machine: its label %s has that Machine's UID %s", f.node.Name, v1alpha1.LabelOwnedBy, owner)
	default:
		if f.taken, err = r.contested(ctx, p.m, f.node); err != nil {
			return err
		}
	}
	if f.taken != "" {
		f.node = nil
	}
	return nil
}

// observeGroup reads the timeouts, and asks the group whether a server may be made, where that matters.
func (r *Reconciler) observeGroup(ctx context.Context, p *pass) error {
	f := &p.facts
	making := f.cloudErr == nil && f.cloud.Synced && f.cloud.Server == nil && !f.named && !f.deleting
	if f.joined && !f.deleting {
		return nil
	}
	var err error
	if p.group, err = r.groupOf(ctx, p.m); err != nil {
		return err
	}
	p.timeouts, p.wrong = r.timeoutsOf(p.m, p.group)
	now := r.Clock.Now()
	f.backingOff = r.retries.Until(p.m, now).After(now)
	if making && !f.initializing && !f.backingOff {
		if f.permission, err = r.mayCreate(ctx, p); err != nil {
			return err
		}
	}
	if s := f.cloud.Server; s != nil && p.timeouts.join > 0 && !s.Created.IsZero() {
		f.late = !now.Before(s.Created.Add(p.timeouts.join))
	}
	return r.observeDrain(ctx, p)
}

// observeDrain decides whether the pods of a Machine that goes are asked to leave first.
func (r *Reconciler) observeDrain(ctx context.Context, p *pass) error {
	f := &p.facts
	if !f.deleting || f.node == nil {
		return nil
	}
	_, skip := f.node.Annotations[v1alpha1.AnnotationSkipEviction]
	f.timedOut = !r.Clock.Now().Before(p.m.DeletionTimestamp.Add(p.timeouts.drain))
	alive := !f.cloud.Gone && (f.cloud.Server == nil || f.cloud.Server.State != cloud.ServerDeleting)
	if skip || f.timedOut || !alive || p.timeouts.drain <= 0 {
		return nil
	}
	target, err := r.hasTarget(ctx, f.node)
	f.drainDue = target
	return err
}

// unreachable tells whether the node has not been Ready for so long that its kubelet will not end any pod.
func unreachable(node *corev1.Node, now time.Time) bool {
	c := readyCondition(node)
	return c != nil && c.Status != corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) >= unreachableAfter
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	return condition(node, corev1.NodeReady)
}

func condition(node *corev1.Node, name corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == name {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

func isTrue(node *corev1.Node, name corev1.NodeConditionType) bool {
	c := condition(node, name)
	return c != nil && c.Status == corev1.ConditionTrue
}

// namedServer returns the ID of the server that spec.providerID names; empty when it names none.
func namedServer(m *v1alpha1.Machine) string {
	return providerid.Server(ptr.Deref(m.Spec.ProviderID, ""))
}
