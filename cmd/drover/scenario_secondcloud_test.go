//go:build cluster

package main

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

const (
	minSize = "cluster.k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxSize = "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size"
)

// This test runs the stages of the demo (docs/demo.md) on a cloud that is not OpenStack. Each stage builds on the previous
// ones.
func TestASecondCloudThatImplementsTheCloudInterfaces(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRooms(t)
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool", Annotations: map[string]string{minSize: "1", maxSize: "5"}}}
	d.Spec.Replicas, d.Spec.Selector.MatchLabels = new(int32(1)), map[string]string{"pool": "pool"}
	d.Spec.Template.Metadata.Labels, d.Spec.Template.Spec = d.Spec.Selector.MatchLabels, specOf("small")
	for _, stage := range []struct {
		name string
		run  func(*testing.T, *v1alpha1.MachineDeployment)
	}{
		{"a Node joins after a MachineDeployment was created", func(t *testing.T, d *v1alpha1.MachineDeployment) {
			must(t, r.client.Create(t.Context(), d))
			r.settled(t, 1)
		}},
		{"NodeGroupIncreaseSize adds Nodes to the group", r.grow},
		{"NodeGroupDeleteNodes removes Nodes from the group", r.shrink},
		{"kubectl scale grows and shrinks the group", func(t *testing.T, d *v1alpha1.MachineDeployment) {
			r.scale(t, d, 3)
			r.settled(t, 3)
			r.scale(t, d, 1)
			r.settled(t, 1)
		}},
		{"a change of the template replaces every Node", r.roll},
		{"a standalone Machine can be created and deleted", r.single},
		{"in the end, no resource is left in the cloud, and none was created twice", r.clean},
	} {
		if !t.Run(stage.name, func(t *testing.T) { stage.run(t, d) }) {
			return
		}
	}
}

const poolID = "MachineDeployment/kube-system/pool"

func (r *rooms) grow(t *testing.T, _ *v1alpha1.MachineDeployment) {
	r.until(t, "the group is listed with a template node", func() bool {
		if _, err := r.autoscaler.Refresh(t.Context(), &proto.RefreshRequest{}); err != nil {
			return false
		}
		list, err := r.autoscaler.NodeGroups(t.Context(), &proto.NodeGroupsRequest{})
		must(t, err)
		_, err = r.autoscaler.NodeGroupTemplateNodeInfo(t.Context(), &proto.NodeGroupTemplateNodeInfoRequest{Id: poolID})
		return len(list.GetNodeGroups()) == 1 && list.GetNodeGroups()[0].GetId() == poolID && err == nil
	})
	_, err := r.autoscaler.NodeGroupIncreaseSize(t.Context(), &proto.NodeGroupIncreaseSizeRequest{Id: poolID, Delta: 4})
	must(t, err)
	r.settled(t, 5)
	shown, err := r.autoscaler.NodeGroupNodes(t.Context(), &proto.NodeGroupNodesRequest{Id: poolID})
	must(t, err)
	nodes := map[string]bool{}
	for _, n := range r.usable(t) {
		nodes[n.Spec.ProviderID] = true
	}
	for _, i := range shown.GetInstances() {
		if !nodes[i.GetId()] || !strings.HasPrefix(i.GetId(), "memory://cellar#") {
			t.Errorf("instance %s is not the provider ID of a node of %v", i.GetId(), nodes)
		}
	}
}

func (r *rooms) shrink(t *testing.T, _ *v1alpha1.MachineDeployment) {
	var going []*proto.ExternalGrpcNode
	for _, n := range r.usable(t) {
		if len(going) < 4 {
			going = append(going, &proto.ExternalGrpcNode{Name: n.Name, ProviderID: n.Spec.ProviderID, Labels: n.Labels, Annotations: n.Annotations})
		}
	}
	_, err := r.autoscaler.NodeGroupDeleteNodes(t.Context(), &proto.NodeGroupDeleteNodesRequest{Id: poolID, Nodes: going})
	must(t, err)
	r.settled(t, 1)
	for _, n := range going {
		if _, left := r.usable(t)[n.GetName()]; left {
			t.Errorf("node %s is still there", n.GetName())
		}
	}
}

func (r *rooms) roll(t *testing.T, d *v1alpha1.MachineDeployment) {
	r.scale(t, d, 2)
	r.settled(t, 2)
	old := r.usable(t)
	must(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(d), d))
	before := d.DeepCopy()
	d.Spec.Template.Spec = specOf("large")
	must(t, r.client.Patch(t.Context(), d, client.MergeFrom(before)))
	r.until(t, "all nodes are large", func() bool {
		nodes := r.usable(t)
		if len(nodes) < 2 {
			t.Errorf("only %d nodes are usable in the rollout", len(nodes))
		}
		large := 0
		for _, n := range nodes {
			if n.Labels[corev1.LabelInstanceTypeStable] == "large" {
				large++
			}
		}
		return large == 2 && len(nodes) == 2
	})
	r.settled(t, 2)
	for name := range old {
		if _, left := r.usable(t)[name]; left {
			t.Errorf("node %s of the old template is still there", name)
		}
	}
}

func (r *rooms) single(t *testing.T, _ *v1alpha1.MachineDeployment) {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "single"}, Spec: specOf("small")}
	must(t, r.client.Create(t.Context(), m))
	r.settled(t, 3)
	must(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	if got := string(m.Status.ProviderStatus.Raw); !strings.Contains(got, `"box":`) || !strings.Contains(got, `"room":"cellar"`) || strings.Contains(got, "serverID") {
		t.Errorf("status.providerStatus is %s", got)
	}
	must(t, r.client.Delete(t.Context(), m))
	r.settled(t, 2)
}

// clean deletes the deployment. No garbage collector runs, so the test deletes what the deployment owns.
func (r *rooms) clean(t *testing.T, d *v1alpha1.MachineDeployment) {
	must(t, r.client.Delete(t.Context(), d))
	must(t, r.client.DeleteAllOf(t.Context(), &v1alpha1.MachineSet{}, client.InNamespace(metav1.NamespaceSystem)))
	must(t, r.client.DeleteAllOf(t.Context(), &v1alpha1.Machine{}, client.InNamespace(metav1.NamespaceSystem)))
	r.settled(t, 0)
	// The stages created 11 Machines: 1 at first, 4 for the autoscaler, 2 by kubectl scale, 1 before the rollout and 2 in it,
	// and 1 standalone Machine.
	want := map[string]int{"lay cable": 11, "build box": 11, "scrap box": 11, "take cable out": 11}
	if got := r.cloud.Calls(); !maps.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}
