// Package neighbours simulates programs of other projects that write Nodes and decide about evictions beside drover: a network plugin, Node
// Feature Discovery, a CSI driver, a writer that takes labels and taints away, and a webhook for evictions. docs/testing.md lists what each
// of them does, and what it leaves out.
package neighbours
