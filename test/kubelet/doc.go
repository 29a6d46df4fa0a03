// Package kubelet simulates the programs on a simulated server, and the cloud-controller-manager.
//
// A simulated kubelet uses only what a real server has. It fetches its own user data from the metadata service, reads the files
// in it, signs in to the API server with the bootstrap token in these files, and then uses its own certificate. The output of
// its units is written to the journal. It is written to the console only if the unit files in the user data configure that.
//
// # The rules of the kubelet
//
// They are those of kubernetes/kubernetes 1.37. Files without a folder are in pkg/kubelet/.
//
//   - It registers once in the life of its process: it creates its Node, or takes the one that exists. If the Node is deleted, it
//     registers again only after a restart (kubelet_node_status.go). Left out: on an existing Node, correcting default labels and
//     sizes of huge pages; the annotation of volumes that are attached by a controller.
//   - It sets the labels of host name, operating system and architecture, the last two also under their beta keys, and those of
//     --node-labels, of which some are refused (kubelet_node_status.go, cmd/kubelet/app/options/options.go,
//     staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go). Left out: putting back labels that somebody removes.
//   - Its taints, with uninitialized if there is a cloud-controller-manager, are only set at registration. The API server refuses
//     later changes (kubelet_node_status.go, plugin/pkg/admission/noderestriction/admission.go).
//   - Ready is False while it starts and while it fails (Options.Fails), with fresh heartbeats. It never touches conditions of other
//     programs (nodestatus/setters.go). Left out: conditions of pressure, which are always False; Events. The real one writes an
//     unchanged status every 5 minutes, this one with each heartbeat (10 s).
//   - It has a lease of 40 s (staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go). Its lease is made again for a
//     Node that was deleted.
//   - Its capacity has huge pages of the amount 0. Allocatable is what reservations and hard eviction thresholds leave
//     (nodestatus/setters.go, cm/node_container_manager_linux.go). Left out: extended resources, swap, and the sizes of huge pages
//     of other architectures.
//   - It gets its first certificate by the join token, renews at 80 % of its life, and requests a serving certificate once it has
//     addresses (certificate/kubelet.go, staging/src/k8s.io/client-go/util/certificate/certificate_manager.go). The real one renews
//     between 70 and 90 %, and at once when its addresses change. Nothing listens on port 10250: there are no logs and no exec.
//   - A server that is shut down, or cut off, reports nothing. Left out everywhere: volumes in use, images, eviction of pods, graceful
//     shutdown, --node-ip.
//
// # The rules of the cloud-controller-manager
//
// [RunCloudControllerManager] follows staging/src/k8s.io/cloud-provider/controllers/ of kubernetes/kubernetes 1.37, and
// pkg/openstack/ of kubernetes/cloud-provider-openstack.
//
//   - A Node with the taint uninitialized gets flavor, zone and region as labels, each under two keys, the physical host as
//     topology.openstack.org/host-id, and a provider ID if it has none. The same write removes the taint. The server is found by
//     provider ID, else by name (node/node_controller.go, instances.go). Left out: provider IDs with a region; the flavor's ID if its
//     name is not a valid label; characters of a zone that no label may have; the Event Synced.
//   - Addresses follow in a second write, and later when the server's have changed (node/node_controller.go). Later changes are seen
//     each second, not after up to 5 minutes. Left out: --node-ip.
//   - A Node that is not Ready is deleted if its server is gone, and gets the taint node.cloudprovider.kubernetes.io/shutdown if its
//     server is shut down. The taint goes when the Node is Ready (nodelifecycle/node_lifecycle_controller.go, instances.go). It looks
//     each second, not every 5 s. Left out: Nodes without a provider ID; Events.
//   - Left out: correcting labels of initialized Nodes, Services, routes. It is an administrator, and has no RBAC of its own.
package kubelet
