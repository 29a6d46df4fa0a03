// Package nodes makes all decisions about the Node of one Machine: which Node is the Machine's ([Matcher]), which labels,
// annotations and taints are added to the Node or removed from it ([Apply]), and when its first start is complete
// ([StartRules]). It is pure: it has no client, clock or logger, and never asks a cloud.
package nodes
