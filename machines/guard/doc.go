// Package guard checks that drover's admission policies are in force. The policies keep the authors of Machines, sets and
// deployments from writing values that drover trusts. While the policies are not in force, no part of drover may rely on a
// value that they protect.
//
// [Keeper] blocks the deletion of Machines and of what is left of them in the cloud while one of drover's own
// CustomResourceDefinitions (CRDs) is being deleted or is missing. When a CRD is deleted, the API server deletes all objects of its
// kind, and the garbage collector deletes the objects that those own: in the end every Machine of the cluster. An operator who deletes
// a CRD may not want to delete the servers, so nothing is drained or deleted until an operator confirms it.
package guard
