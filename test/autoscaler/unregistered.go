package autoscaler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeReason is the annotation with the reason why an instance without a node is deleted.
const fakeReason = "k8s.io/cluster-autoscaler/fake-node-reason"

// The reasons for a deletion, which are the values of the annotation fakeReason.
const (
	reasonUnregistered = "unregistered"
	reasonFailed       = "create-error"
)

// removeUnregistered deletes instances that never became nodes, as far as the minimum allows. When the call for one group fails,
// the other groups wait for the next loop.
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
			a.o.Log.Error(err, "Failed to read the size of a group", "group", g.ID)
			continue
		}
		if nodes = nodes[:min(len(nodes), max(0, size-g.Min))]; len(nodes) == 0 {
			continue
		}
		if nodes, err = a.orAll(ctx, g.ID, nodes); err != nil {
			a.o.Log.Error(err, "Failed to list the other instances of a group", "group", g.ID)
			continue
		}
		a.o.Log.Info("Removing instances that never became nodes", "group", g.ID, "count", len(nodes))
		err = a.provider.delete(ctx, g.ID, nodes...)
		a.instances.invalidate(g.ID)
		if err != nil {
			a.o.Log.Error(err, "Failed to remove unregistered instances", "group", g.ID)
			return nil
		}
	}
	return nil
}

// oldUnregistered returns the instances without a node that have taken longer than the provisioning time. It requests the group of
// each instance, and the options of that group. When the options of one instance's group cannot be read, it returns none.
func (a *Autoscaler) oldUnregistered(ctx context.Context, v *View) (map[string][]*corev1.Node, error) {
	out := map[string][]*corev1.Node{}
	for i := range v.Groups {
		for _, instance := range v.unregistered(&v.Groups[i]) {
			fake := fakeNode(instance, reasonUnregistered)
			owner, err := a.provider.forNode(ctx, fake)
			if err != nil || owner.ID == "" {
				a.o.Log.Info("Failed to find the group of an unregistered instance", "instance", instance.ID, "error", err)
				continue
			}
			s, err := a.settings(ctx, owner.ID)
			if err != nil {
				a.o.Log.Error(err, "Failed to read the provisioning time of an instance", "instance", instance.ID)
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

// orAll returns the given nodes. For a group that scales only between zero and its maximum, it returns nodes for all instances of
// the group instead, because cluster-autoscaler deletes all of them when one has failed.
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

// unlistedError is returned where cluster-autoscaler crashes: the group of an instance is not among the listed groups (CA-C30).
type unlistedError struct{ instance, group string }

func (e unlistedError) Error() string {
	return "instance " + e.instance + ": its group " + e.group + " is not listed; cluster-autoscaler would crash here"
}

func (v *View) lists(group string) bool {
	for i := range v.Groups {
		if v.Groups[i].ID == group {
			return true
		}
	}
	return false
}

// fakeNode returns a node that represents an instance without a node. Its name and its provider ID are the instance's ID.
func fakeNode(i Instance, reason string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.ID, Annotations: map[string]string{fakeReason: reason}},
		Spec:       corev1.NodeSpec{ProviderID: i.ID},
	}
}

// removeFailed deletes instances that the cloud could not create, in every loop in which they are reported.
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
			a.o.Log.Error(err, "Failed to remove failed instances", "group", g.ID)
			continue
		}
		a.instances.invalidate(g.ID)
	}
}
