// Package autoscale serves package nodegroup to the cluster-autoscaler: the externalgrpc protocol, its status codes, who
// may call, and the connection. It makes no decision about nodes.
package autoscale
