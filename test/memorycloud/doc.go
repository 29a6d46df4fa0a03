// Package memorycloud is a second cloud for tests: it shows that a provider needs nothing of drover but the seam
// machines/cloud. Its servers are boxes in rooms, which exist in memory only. Each box has a cable, which must be laid before
// the box is built and is taken out after it. It has provider IDs, a record in status.providerStatus, placements and
// sizes of its own, and knows nothing of OpenStack, clients or controllers. Nothing runs on a box: who uses the package plays
// its kubelets.
package memorycloud
