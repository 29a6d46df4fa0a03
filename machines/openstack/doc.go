// Package openstack is the OpenStack driver: it implements the interfaces of package machines/cloud.
//
// It uses four packages, each of which may use those before it: client makes calls and turns every failure into a class of
// machines/fault, spec reads provider specs and credentials, catalog resolves the names in a spec into a plan, and inventory follows
// the resources of a project. The driver itself has two parts. A [Cloud] holds one connection for each set of credentials and attaches
// it to its project (cloud.go, attach.go, connections.go). An instance is the view of the cloud for one Machine, for one reconcile: it
// creates and deletes the Machine's resources, all with the Machine's owner tag (instance.go, ensure.go, remove.go).
//
// docs/openstack.md describes the fields, the precedence of credentials and the calls per Machine.
package openstack
