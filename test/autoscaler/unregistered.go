package autoscaler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeReason is the annotation by which a provider tells why an instance without a node is deleted.
const fakeReason = "k8s.io/cluster-autoscaler/fake-node-reason"

// The reasons.
const (
	reasonUnregistered = "unregistered"
	reasonFailed       = "create-error"
)

// removeUnregistered deletes instances that never became a node, as far as the minimum allows. When one group fails, the
// rest waits for the next loop.
func (a *Autoscaler) removeUnregistered(ctx context.Context, v *View) error {
	old, err := a.oldUnregistered(ctx, v)
	if err != nil {
		return err
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		nodes := old[g.ID]
		if len(nodes) == 0 {
			continue
		}
		size, err := a.provider.targetSize(ctx, g.ID)
		if err != nil {
			a.o.Log.Error(err, "Size is unknown", "group", g.ID)
			continue
		}
		if nodes = nodes[:min(len(nodes), max(0, size-g.Min))]; len(nodes) == 0 {
			continue
		}
		if nodes, err = a.orAll(ctx, g.ID, nodes); err != nil {
			a.o.Log.Error(err, "What else would have to go is unknown", "group", g.ID)
			continue
		}
		a.o.Log.Info("Removing instances that never became nodes", "group", g.ID, "count", len(nodes))
		err = a.provider.delete(ctx, g.ID, nodes...)
		a.instances.invalidate(g.ID)
		if err != nil {
			a.o.Log.Error(err, "Removing unregistered instances failed", "group", g.ID)
			return nil
		}
	}
	return nil
}

// oldUnregistered asks whose each unregistered instance is, and how long it may take; it gives those whose time is over.
// When the time of one cannot be told, none is given in this loop.
func (a *Autoscaler) oldUnregistered(ctx context.Context, v *View) (map[string][]*corev1.Node, error) {
	out := map[string][]*corev1.Node{}
	for i := range v.Groups {
		for _, instance := range v.unregistered(&v.Groups[i]) {
			fake := fakeNode(instance, reasonUnregistered)
			owner, err := a.provider.forNode(ctx, fake)
			if err != nil || owner.ID == "" {
				a.o.Log.Info("Nobody knows an unregistered instance", "instance", instance.ID, "error", err)
				continue
			}
			s, err := a.settings(ctx, owner.ID)
			if err != nil {
				a.o.Log.Error(err, "Nobody knows how long to wait", "instance", instance.ID)
				return nil, nil
			}
			if since, ok := a.memory.unregistered[instance.ID]; !ok || v.Now.Sub(since) < s.ProvisionTime {
				continue
			}
			if !v.lists(owner.ID) {
				return nil, unlistedError{instance.ID, owner.ID}
			}
			out[owner.ID] = append(out[owner.ID], fake)
		}
	}
	return out, nil
}

// orAll gives the nodes, or all instances of the group when it is either empty or full: then one that failed costs all.
func (a *Autoscaler) orAll(ctx context.Context, group string, nodes []*corev1.Node) ([]*corev1.Node, error) {
	s, err := a.settings(ctx, group)
	if err != nil || !s.ZeroOrMax {
		return nodes, err
	}
	all, err := a.provider.instances(ctx, group)
	if err != nil {
		return nil, err
	}
	nodes = nil
	for _, instance := range all {
		nodes = append(nodes, fakeNode(instance, ""))
	}
	return nodes, nil
}

// unlistedError is what crashes the original: the group of an instance is not among those that are listed (CA-C30).
type unlistedError struct{ instance, group string }

func (e unlistedError) Error() string {
	return "instance " + e.instance + ": its group " + e.group + " is not listed; the original would crash here"
}

func (v *View) lists(group string) bool {
	for i := range v.Groups {
		if v.Groups[i].ID == group {
			return true
		}
	}
	return false
}

// fakeNode stands for an instance that has no node: its name and provider ID are the instance's.
func fakeNode(i Instance, reason string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.ID, Annotations: map[string]string{fakeReason: reason}},
		Spec:       corev1.NodeSpec{ProviderID: i.ID},
	}
}

// removeFailed deletes instances that the cloud could not make, every loop while they are reported.
func (a *Autoscaler) removeFailed(ctx context.Context, v *View) {
	for i := range v.Groups {
		g := &v.Groups[i]
		var fakes []*corev1.Node
		for _, instance := range g.failed() {
			fakes = append(fakes, fakeNode(instance, reasonFailed))
		}
		if len(fakes) == 0 {
			continue
		}
		fakes, err := a.orAll(ctx, g.ID, fakes)
		if err == nil {
			err = a.provider.delete(ctx, g.ID, fakes...)
		}
		if err != nil {
			a.o.Log.Error(err, "Removing failed instances failed", "group", g.ID)
			continue
		}
		a.instances.invalidate(g.ID)
	}
}
