// Package openstack is the OpenStack driver: it implements the seam of machines/cloud.
//
// It uses four packages, each of which may use those before it: client makes calls and turns every answer of the cloud into a class of
// machines/fault, spec reads provider specs and credentials, catalog turns the names in a spec into a plan, and inventory follows what
// exists in a project. The driver itself has two parts. A [Cloud] holds one connection for each set of credentials and attaches it to its
// project (cloud.go, attach.go, connections.go). An instance is one Machine's side of it for one reconcile: it makes and deletes what
// the Machine needs, with the Machine's owner tag on everything (instance.go, ensure.go, remove.go).
//
// docs/openstack.md has the fields, the precedence of credentials and the calls per machine.
package openstack
