// Package inventory holds what is known of the servers, ports, floating IPs and quotas of OpenStack projects.
//
// A [Project] follows one project in one region, for all Machines that live there. It lists the servers with one list of
// changes that all Machines share, finds what belongs to which Machine by owner tags, and decides what may be believed: an absence is
// no proof that a server is gone, and too many losses at once are held until an operator confirms them. Each exported method is
// atomic and may be called from several goroutines. Methods make no call to the cloud unless their comment says so.
//
// This package holds the one lock, the clock, the order of the calls, and what is read from and written to Kubernetes. What is known,
// and what follows from it, is in package known, which is plain data; the calls that all Machines share are in package calls. No call
// is made while the lock is held. The package has no provider spec and no catalog.
package inventory
