// Package inventory is the lock, the clock and the loop of what is known of OpenStack projects: it makes the calls that the Machines of a
// project share, and gives the answers to package state, which decides.
//
// A [Project] follows one project in one region for all its Machines, which share one list of the project's servers, mostly of changes
// alone. Each exported method is safe for concurrent use, and makes no call to the cloud except where its comment states it. No call is
// made while the lock is held. The package knows no provider spec and no catalog.
package inventory
