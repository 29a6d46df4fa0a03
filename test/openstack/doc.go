// Package openstack is a simulated OpenStack cloud: Keystone, Nova, Neutron, Glance, as much of Cinder as boot volumes
// need, and the metadata service that a booting server reads. It answers as a real cloud does, so that the same tests
// can be run against a real one; README.md says which behaviours are held and where it is known to differ.
//
// It has two doors. [Cloud.Start] listens on loopback. [Cloud.RoundTripper] answers in the caller's own goroutine and
// waits only on the injected clock, which is what testing/synctest needs.
//
// The state of all services lies behind one lock, in internal/kernel, that is never held while a call waits. What takes time (a boot, a deletion) is an
// entry in an agenda that is worked off by the injected clock: with a fake clock nothing moves until it is stepped,
// and after a step the very next call sees all that became due.
package openstack
