package machine

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// unreachableAfter is how long a node must not have been Ready for its kubelet to count as gone (reference rulings).
const unreachableAfter = 5 * time.Minute

// facts are what the table decides by. The later ones become true in the course of a pass.
type facts struct {
	paused, deleting, initializing, force bool
	// finalizers: all that a living Machine must bear are there. anyFinalizer: one of ours is.
	finalizers, anyFinalizer        bool
	serverFinalizer, cloudFinalizer bool
	// owned: a set controls the Machine and would replace it.
	owned bool
	// named: spec.providerID is recorded. hadServer: something says that a server was made once.
	named, hadServer bool
	// joined: status.nodeRef is recorded.
	joined bool

	// cloudErr is why the cloud cannot be asked; then cloud says nothing. specUnreadable: because of the spec alone.
	cloudErr       *fault.Error
	specUnreadable bool
	cloud          cloud.Facts
	// backingOff: an earlier failure forbids another attempt yet.
	backingOff bool
	// late: the server has had the whole join timeout.
	late bool

	// node is the Machine's Node; taken says why a Node of its name is not.
	node  *corev1.Node
	taken string
	// drainDue: the node's pods are to be evicted before the server goes. unreachable: its kubelet does not answer.
	drainDue, unreachable bool

	userData, ports, floatingIP, synced    bool
	drained, released, nodeGone, tokenGone bool
}

// ownFinalizers are those that drover puts on a Machine, or removes in the end.
var ownFinalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode, v1alpha1.FinalizerFloatingIP}

// ofMachine reads the facts that stand in the object itself.
func ofMachine(m *v1alpha1.Machine) facts {
	has := func(name string) bool { return slices.Contains(m.Finalizers, name) }
	f := facts{
		paused:          paused(m),
		deleting:        m.DeletionTimestamp != nil,
		initializing:    m.Annotations[v1alpha1.AnnotationInitializers] != "",
		force:           m.Annotations[v1alpha1.AnnotationForceDelete] == "true",
		finalizers:      has(v1alpha1.FinalizerServer) && has(v1alpha1.FinalizerNode),
		anyFinalizer:    slices.ContainsFunc(ownFinalizers, has),
		serverFinalizer: has(v1alpha1.FinalizerServer),
		cloudFinalizer:  has(v1alpha1.FinalizerServer) || has(v1alpha1.FinalizerFloatingIP),
		owned:           metav1.GetControllerOf(m) != nil,
		named:           m.Spec.ProviderID != nil && *m.Spec.ProviderID != "",
		joined:          m.Status.NodeRef != nil,
	}
	f.hadServer = f.named || f.joined || m.Status.ProviderStatus != nil
	return f
}

func paused(m *v1alpha1.Machine) bool {
	_, ours := m.Annotations[v1alpha1.AnnotationPaused]
	_, capi := m.Annotations[v1alpha1.AnnotationPausedCAPI]
	return ours || capi
}

// observe gathers the facts of a pass: the object, the cloud's inventory, the Node.
func (r *Reconciler) observe(ctx context.Context, p *pass) error {
	p.facts = ofMachine(p.m)
	f := &p.facts
	if f.paused || f.deleting && !f.anyFinalizer {
		return nil
	}
	r.observeCloud(ctx, p)
	now := r.Clock.Now()
	f.backingOff = r.backoff.until(p.m, now).After(now)
	if s := f.cloud.Server; s != nil && r.JoinTimeout > 0 && !s.Created.IsZero() {
		f.late = !now.Before(s.Created.Add(r.JoinTimeout))
	}
	return r.observeNode(ctx, p)
}

func (r *Reconciler) observeCloud(ctx context.Context, p *pass) {
	instance, err := r.Cloud.Instance(ctx, p.m)
	if err != nil {
		p.facts.cloudErr = fault.Of(err)
		p.facts.specUnreadable = p.facts.cloudErr.Class == fault.Invalid
		return
	}
	p.instance = instance
	if p.facts.cloud, err = instance.Observe(ctx); err != nil {
		p.facts.cloudErr = fault.Of(err)
	}
}

func (r *Reconciler) observeNode(ctx context.Context, p *pass) error {
	f := &p.facts
	id := ""
	switch {
	case f.cloud.Server != nil:
		id = f.cloud.Server.ID
	case f.named:
		id = serverID(*p.m.Spec.ProviderID)
	}
	candidates, err := r.candidates(ctx, p.m, id)
	if err != nil {
		return err
	}
	f.node, f.taken = claim(p.m, id, candidates)
	if f.node == nil || !f.deleting {
		return nil
	}
	now := r.Clock.Now()
	f.unreachable = unreachable(f.node, now)
	_, skip := f.node.Annotations[v1alpha1.AnnotationSkipEviction]
	inTime := now.Before(p.m.DeletionTimestamp.Add(r.DrainTimeout))
	alive := !f.cloud.Gone && (f.cloud.Server == nil || f.cloud.Server.State != cloud.ServerDeleting)
	f.drainDue = !skip && inTime && alive
	return nil
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

// serverID takes the server's id out of a provider ID, in either form: openstack:///<id> or openstack://<region>/<id>.
// Anything else has none.
func serverID(providerID string) string {
	rest, ok := strings.CutPrefix(strings.ToLower(providerID), "openstack://")
	if !ok {
		return ""
	}
	return rest[strings.LastIndex(rest, "/")+1:]
}
