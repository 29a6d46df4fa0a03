// Package nodes decides what concerns the Node of one Machine: which Node is the Machine's ([Matcher]), which labels,
// annotations and taints it gets and loses ([Mark]), and when its first start is complete ([StartRules]). All of it is pure:
// it has no client, clock or logger, and never asks a cloud.
package nodes
