// Package autoscale serves package nodegroup to the cluster-autoscaler. It implements the externalgrpc protocol, its status
// codes, the authorization of clients, and the connections. It makes no decisions about nodes.
package autoscale
