// Package memorycloud is a second cloud for tests. It shows that a provider needs only the interface machines/cloud of
// drover. Its servers are boxes in rooms, and exist in memory only. Each box has a cable, which plays the part of a
// port: it must be laid before the box is built, and is taken out after the box was scrapped. The package has its own
// provider IDs, record in status.providerStatus, placements and sizes, and knows nothing of OpenStack, clients or
// controllers. Nothing runs on a box: the user of the package plays the kubelets.
package memorycloud
