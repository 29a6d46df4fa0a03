// Package openstack gives Machines their OpenStack side: it implements the seam of machines/cloud.
//
// A provider spec is read in layers (Machine, class, Cluster, configured cloud: layers.go, spec.go), its credentials are
// turned into one shared session (package client), what it names is looked up in a cached catalog (catalog.go), and the
// servers of a project are followed by one shared list (package inventory). An instance (instance.go) makes and deletes what
// one Machine needs; everything it makes has the Machine's owner tag.
// Package client makes the calls and turns every answer of the cloud into a class of machines/fault.
//
// docs/openstack.md has the fields, the precedence of credentials and the calls per machine.
package openstack
