// Package nodes decides everything about the Node of one Machine: which Node is the Machine's ([Matcher]), which labels,
// annotations and taints it gets and loses ([Apply]), and when its first start is complete ([StartRules]). It is pure: it has
// no client, clock or logger, and never asks a cloud.
package nodes
