// Package inventory holds what is known of the servers, ports, floating IPs and quotas of OpenStack projects.
//
// A [Project] follows one project in one region for all its Machines. All Machines share one list of the project's
// servers, which mostly asks only for changes. The Project matches resources to Machines by owner tags, and decides
// which losses to accept. A server that is missing from a list is not proven gone. When too many servers are lost at
// the same time, the losses are held until an operator confirms them. Each exported method is atomic and safe for
// concurrent use. Methods make no call to the cloud except where their comments state it.
//
// This package has the only lock and the clock, makes the calls in the right order, and reads and writes Kubernetes
// objects. Package known stores the state and makes the decisions as plain data, and package calls makes the shared
// calls. No call is made while the lock is held. The package knows no provider spec and no catalog.
package inventory
