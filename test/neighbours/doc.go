// Package neighbours simulates programs of other projects that write Nodes and decide about evictions beside drover. Each is an
// administrator, reads all Nodes every 100 ms, and writes with the version that it has read. The real ones watch, and have rights
// of their own.
//
//   - A network plugin: a node whose agent is not ready gets the taint node.cilium.io/agent-not-ready. When the agent is ready, the
//     taint goes, and NetworkUnavailable becomes False (operator/watchers/node_taint.go, node_taint_cell.go of cilium/cilium). The
//     agents do not run as pods: a test decides when they are ready. The real operator sets the taint only with
//     its flag --set-cilium-node-taints, and with the effect NoSchedule. Cilium's documentation recommends the effect NoExecute for node
//     groups, so the simulated operator can set both.
//   - Node Feature Discovery: labels below feature.node.kubernetes.io, of which one differs from node to node, and their keys in an
//     annotation (pkg/nfd-master/nfd-master.go of kubernetes-sigs/node-feature-discovery). Left out: rules, taints, extended
//     resources, removing a label.
//   - A CSI driver: the zone of its volumes as a label, and its ID of the node in an annotation
//     (pkg/volume/csi/nodeinfomanager/nodeinfomanager.go of kubernetes/kubernetes, pkg/csi/cinder/nodeserver.go of
//     kubernetes/cloud-provider-openstack). The real kubelet writes both. Left out: CSINode objects, and the error when the label has
//     another value already.
//   - A remover: it removes labels and taints with given keys from every node, including drover's, as scripts with kubectl label and
//     kubectl taint do.
//   - A webhook for evictions: it is slow, or refuses the eviction of a pod, with a message
//     (pkg/registry/core/pod/storage/eviction.go of kubernetes/kubernetes; the timeout of 30 s:
//     pkg/apis/admissionregistration/validation/validation.go). Left out: a webhook that does not answer, or answers with nonsense.
package neighbours
