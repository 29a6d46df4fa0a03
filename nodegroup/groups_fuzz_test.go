package nodegroup

import (
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// FuzzCallsWithArbitraryArgumentsNeitherPanicNorWrite sends arbitrary arguments to all calls: no call may panic, and none
// may write to the cluster.
func FuzzCallsWithArbitraryArgumentsNeitherPanicNorWrite(f *testing.F) {
	f.Add("", "", "", "", "", int32(0))
	f.Add("MachineDeployment/kube-system/a", "a-2", "openstack:///11111111-0000-4000-8000-0000000000a2", "k8s.io/cluster-autoscaler/fake-node-reason", "unregistered", int32(1<<31-1))
	f.Add("MachineDeployment/kube-system/a", "MachineDeployment/kube-system/b/0/0", "", v1alpha1.AnnotationNodeGroup, "x", int32(-1<<31))
	f.Add("MachineDeployment/kube-system/a", "MachineDeployment//a/machine/", "MachineDeployment/kube-system/a/-1/99999999999", "", "", int32(-1))
	f.Add("MachineDeployment/kube-system/a/template", "////", "\xff\x00", "\n", "\xff", int32(3))
	w := pools.NewWorld()
	p := w.Pool("a", 2, 2, 2)
	p.Node("a-1")
	p.Node("a-2")
	b := newBench(f, w)
	f.Fuzz(func(t *testing.T, id, name, providerID, key, value string, delta int32) {
		n := membership.Node{Name: name, ProviderID: providerID, Labels: map[string]string{key: value}, Annotations: map[string]string{key: value}}
		b.groups.ForNode(n)
		_, _ = b.groups.TargetSize(id)
		_, _ = b.groups.Instances(id)
		_, _ = b.groups.TemplateNode(id)
		// The group's minimum equals its maximum, so that even a valid call cannot write.
		_ = b.groups.IncreaseSize(t.Context(), id, delta)
		_ = b.groups.DecreaseTargetSize(t.Context(), id, delta)
		_ = b.groups.DeleteNodes(t.Context(), id, []membership.Node{n})
		if b.patches.Load() != 0 {
			t.Fatalf("id %q, node %+v, delta %d led to a write", id, n, delta)
		}
	})
}
