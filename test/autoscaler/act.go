package autoscaler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeReason is the annotation by which a provider tells why an instance without a node is deleted.
const fakeReason = "k8s.io/cluster-autoscaler/fake-node-reason"

// fakeNode stands for an instance that has no node: its name and provider ID are the instance's.
func fakeNode(i Instance, reason string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.ID, Annotations: map[string]string{fakeReason: reason}},
		Spec:       corev1.NodeSpec{ProviderID: i.ID},
	}
}

// removeUnregistered deletes instances that never became a node, as far as the minimum allows.
func (a *Autoscaler) removeUnregistered(ctx context.Context, v *View) error {
	for i := range v.Groups {
		g := &v.Groups[i]
		long := a.memory.longUnregistered(v, g)
		long = long[:min(len(long), max(0, g.Target-g.Min))]
		if len(long) == 0 {
			continue
		}
		var fakes []*corev1.Node
		for _, instance := range long {
			fake := fakeNode(instance, "unregistered")
			owner, err := a.provider.forNode(ctx, fake)
			if err != nil {
				return err
			}
			if owner.ID == g.ID {
				fakes = append(fakes, fake)
			}
		}
		if len(fakes) == 0 {
			continue
		}
		a.o.Log.Info("Removing instances that never became nodes", "group", g.ID, "count", len(fakes))
		if err := a.provider.delete(ctx, g.ID, fakes...); err != nil {
			a.o.Log.Error(err, "Removing unregistered instances failed", "group", g.ID)
			return nil
		}
		delete(a.instances, g.ID)
	}
	return nil
}

// removeFailed deletes instances that the cloud could not make, every loop while they are reported, and makes groups
// with new ones back off.
func (a *Autoscaler) removeFailed(ctx context.Context, v *View, fresh map[string][]Instance) error {
	var failures []error
	for i := range v.Groups {
		g := &v.Groups[i]
		if _, growing := a.memory.requests[g.ID]; growing && len(fresh[g.ID]) > 0 {
			a.memory.stumbled(g.ID, v.Now, a.o.InitialBackoff, a.o.MaxBackoff)
			a.o.Log.Info("Group backs off", "group", g.ID, "code", fresh[g.ID][0].Code, "message", fresh[g.ID][0].Message)
		}
		failed := g.failed()
		if len(failed) == 0 {
			continue
		}
		var fakes []*corev1.Node
		for _, instance := range failed {
			fakes = append(fakes, fakeNode(instance, "create-error"))
		}
		if err := a.provider.delete(ctx, g.ID, fakes...); err != nil {
			failures = append(failures, err)
			continue
		}
		delete(a.instances, g.ID)
	}
	return errors.Join(failures...)
}

// fixSizes lowers targets whose nodes never came. An error ends the loop for all groups, as in the original.
func (a *Autoscaler) fixSizes(ctx context.Context, v *View) (bool, error) {
	fixed := false
	for _, c := range corrections(v, a.memory) {
		a.o.Log.Info("Lowering a target whose nodes never came", "group", c.Group, "by", c.Delta)
		if err := a.provider.decrease(ctx, c.Group, c.Delta); err != nil {
			return fixed, err
		}
		fixed = true
	}
	return fixed, nil
}

// grow makes one group larger for pods that fit nowhere, and all groups as large as their minimum when told to.
func (a *Autoscaler) grow(ctx context.Context, v *View) (bool, error) {
	var wanted []Increase
	if best := scaleUp(v, a.memory); best != nil {
		wanted = append(wanted, *best)
	} else if a.o.EnforceMinSize {
		wanted = belowMin(v)
	}
	grown := false
	for _, w := range wanted {
		if err := a.provider.increase(ctx, w.Group, w.Delta); err != nil {
			a.memory.stumbled(w.Group, v.Now, a.o.InitialBackoff, a.o.MaxBackoff)
			return grown, err
		}
		a.o.Log.Info("Scaled up", "group", w.Group, "by", w.Delta, "reason", w.Reason)
		// The original asks for the provision time here; if that failed, it would forget the scale-up.
		if _, err := a.settings(ctx, w.Group); err != nil {
			return true, err
		}
		a.memory.grew(w.Group, w.Delta, v.Now)
		delete(a.instances, w.Group)
		grown = true
	}
	return grown, nil
}

// shrink removes nodes that have been unneeded for long enough, unless the cluster has just grown.
func (a *Autoscaler) shrink(ctx context.Context, v *View) bool {
	candidates := unneeded(v, a.remover.inFlight())
	seen := map[string]bool{}
	for _, c := range candidates {
		seen[c.Node.Name] = true
	}
	keep(a.memory.unneeded, seen, v.Now)
	if v.Now.Sub(a.memory.lastAdd) < a.o.ScaleDownDelayAfterAdd || len(v.Pending) > 0 {
		return false
	}
	acted := false
	for _, c := range candidates {
		if v.Now.Sub(a.memory.unneeded[c.Node.Name]) < v.settingsOf(c.Group).UnneededTime {
			continue
		}
		if a.remover.start(ctx, c) {
			delete(a.instances, c.Group)
			acted = true
		}
	}
	return acted
}
