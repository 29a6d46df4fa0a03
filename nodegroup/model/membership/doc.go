// Package membership answers which Machine a node belongs to, which Machines a node group has, and by what id an instance
// without a node is named. Its index is kept up to date event by event.
//
// It is pure: it has no client, and knows nothing of sizes, errors or what the autoscaler is shown.
package membership
