// Package openstack is a simulated OpenStack cloud: Keystone, Nova, Neutron, Glance, as much of Cinder as boot volumes
// need, and the metadata service that a booting server reads. It answers as a real cloud does, so that the same tests
// can be run against a real one; the package contract has the behaviours, and README.md the known
// differences.
//
// There are two ways to call the cloud. [Cloud.Start] listens on loopback. [Cloud.RoundTripper] answers in the caller's own
// goroutine and waits only on the injected clock, which testing/synctest requires.
//
// One lock in internal/kernel guards the state of all services. It is never held while a call waits. A boot or a deletion that
// takes time is an entry in an agenda, which uses the injected clock. With a fake clock nothing happens until the clock is
// stepped, and the first call after a step sees every change that became due.
package openstack
