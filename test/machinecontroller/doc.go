// Package machinecontroller simulates machine-controller and operating-system-manager. It has their kinds and roles, and
// does what they do with a MachineDeployment, its sets, its Machines and their servers. It reads whole objects into its
// own types and writes them back with an update, so it drops every field that drover has added. It keeps the conditions of
// Machines. The webhook configuration has the names of the real one.
//
// Its rules are those of kubermatic/machine-controller v1.66 (commit f1068332). Files are in pkg/.
//
//   - A deployment makes one set for its template and gives it its size (controller/machinedeployment/sync.go). Left out: rollouts (old
//     sets are not scaled down), paused deployments (they are not scaled).
//   - A set makes and deletes Machines; those with the annotation for deletion go first (controller/machineset/controller.go,
//     delete_policy.go). Left out: the other policies of deletion; when a Machine is available.
//   - A Machine gets a name, finalizers, a server with its UID in the metadata, and a floating IP (controller/machine/controller.go,
//     cloudprovider/provider/openstack/provider.go). Left out: security groups, server groups, volumes, other ports, servers in ERROR,
//     the join timeout.
//   - A Node is found by its provider ID, gets the owner label, and is recorded (controller/machine/controller.go). Left out: Nodes
//     found by address, labels and taints of the spec.
//   - A Machine gets a second condition Ready while none is True (controller/machine/controller.go).
//   - A deleted Machine loses its server, floating IP and Node, each with its finalizer (controller/machine/controller.go). Left out: pods
//     are not evicted, and volumes not waited for.
//   - Objects have the null and empty fields, labels and annotations that the webhook writes (admission/machinedeployments.go,
//     admission/machines.go), without a webhook. Left out: what the webhook refuses.
package machinecontroller
