// Package kinds blocks the deletion of Machines while one of drover's own CustomResourceDefinitions is being deleted or is
// missing. When a definition is deleted, the API server deletes all of its objects, and the garbage collector deletes the
// objects that they own: in the end every Machine of the cluster. Deleting a definition need not mean deleting the servers, so
// no Machine is drained or deleted until an operator confirms it.
package kinds
