package neighbours

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// AgentTaint is the key of the taint that the network plugin has on nodes on which its agent does not run.
const AgentTaint = "node.cilium.io/agent-not-ready"

// NetworkPlugin returns a network plugin whose operator taints the nodes on which its agent is not ready, as Cilium's does when
// set-cilium-node-taints is on. runs reports whether the agent of a Node runs, from how long ago the operator first saw that Node.
func NetworkPlugin(c clock.PassiveClock, effect corev1.TaintEffect, runs func(seen time.Duration) bool) Program {
	seen := map[types.UID]time.Time{}
	return Program{Name: "cilium-operator", Change: func(n *corev1.Node) {
		first, known := seen[n.UID]
		if !known {
			first = c.Now()
			seen[n.UID] = first
		}
		has := slices.ContainsFunc(n.Spec.Taints, isAgentTaint)
		switch ready := runs(c.Since(first)); {
		case ready:
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isAgentTaint)
			networkIsUp(n, c.Now())
		case !has:
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: AgentTaint, Effect: effect})
		}
	}}
}

func isAgentTaint(t corev1.Taint) bool { return t.Key == AgentTaint }

// networkIsUp sets the condition NetworkUnavailable to False. The real operator never sets it to True.
func networkIsUp(n *corev1.Node, now time.Time) {
	up := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "CiliumIsUp",
		LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	at := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == up.Type })
	switch {
	case at < 0:
		n.Status.Conditions = append(n.Status.Conditions, up)
	case n.Status.Conditions[at].Status != up.Status || n.Status.Conditions[at].Reason != up.Reason:
		n.Status.Conditions[at] = up
	}
}

// The labels of Node Feature Discovery. ModelLabel differs from node to node.
const (
	featureDomain = "feature.node.kubernetes.io/"
	ModelLabel    = featureDomain + "cpu-model.id"
	// featureList is the annotation with the keys of the labels that Node Feature Discovery has set.
	featureList = "nfd.node.kubernetes.io/feature-labels"
)

// SharedFeatures returns the labels that Node Feature Discovery sets on every node with the same value.
func SharedFeatures() map[string]string {
	return map[string]string{
		featureDomain + "cpu-cpuid.AVX2":       "true",
		featureDomain + "kernel-version.major": "6",
		featureDomain + "system-os_release.ID": "ubuntu",
	}
}

// FeatureDiscovery returns a Node Feature Discovery. It labels nodes with features of their hardware and system.
func FeatureDiscovery() Program {
	return Program{Name: "nfd-master", Change: func(n *corev1.Node) {
		labels := SharedFeatures()
		model := fnv.New32a()
		// writing to a hash never returns an error
		_, _ = model.Write([]byte(n.Name))
		labels[ModelLabel] = fmt.Sprint(model.Sum32())
		for key, value := range labels {
			metav1.SetMetaDataLabel(&n.ObjectMeta, key, value)
		}
		keys := slices.Sorted(maps.Keys(labels))
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, featureList, strings.ReplaceAll(strings.Join(keys, ","), featureDomain, ""))
	}}
}

// The label and the annotation that a kubelet sets for the CSI driver of Cinder.
const (
	StorageZone      = "topology.cinder.csi.openstack.org/zone"
	storageNodeIDs   = "csi.volume.kubernetes.io/nodeid"
	storageDriver    = "cinder.csi.openstack.org"
	providerIDPrefix = "openstack:///"
)

// StorageDriver returns what a kubelet writes once the CSI driver of Cinder runs on its node: the zone of the node's volumes as a label, and
// the ID by which the driver knows the node as an annotation.
func StorageDriver() Program {
	return Program{Name: "cinder-csi", Change: func(n *corev1.Node) {
		id, ours := strings.CutPrefix(n.Spec.ProviderID, providerIDPrefix)
		zone := n.Labels[corev1.LabelTopologyZone]
		if !ours || zone == "" {
			return
		}
		metav1.SetMetaDataLabel(&n.ObjectMeta, StorageZone, zone)
		// the encoding of a map of texts never fails
		ids, _ := json.Marshal(map[string]string{storageDriver: id})
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, storageNodeIDs, string(ids))
	}}
}

// Remover returns a program that removes labels and taints with these keys from every node, also those that drover has set. It plays a script,
// or a policy of the cluster.
func Remover(keys ...string) Program {
	return Program{Name: "remover", Change: func(n *corev1.Node) {
		maps.DeleteFunc(n.Labels, func(key, _ string) bool { return slices.Contains(keys, key) })
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(keys, t.Key) })
	}}
}
