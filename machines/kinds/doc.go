// Package kinds looks after drover's own CustomResourceDefinitions. When one of them is deleted, the API server deletes
// all its objects, and the garbage collector those that they own: at the end stands every Machine of the cluster. Nobody
// who deletes a definition has to mean the servers, so no Machine is drained or deleted until a person says so.
package kinds
