// Package memorycloud is a second cloud for tests. It shows that a provider needs only the interface machines/cloud of
// drover. Its servers are called boxes, its zones are called rooms, and its ports are called cables. They exist in memory
// only. The cable of a box must be created before the box, and is deleted after the box. The package has its own provider
// IDs, record in status.providerStatus, placements and sizes, and does not depend on OpenStack, clients or controllers.
// Nothing runs on a box: the user of the package simulates the kubelets.
package memorycloud
