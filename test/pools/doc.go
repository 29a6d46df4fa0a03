// Package pools describes clusters for tests of node groups: MachineDeployments with bounds, their MachineSets, Machines and
// Nodes, on OpenStack. It holds objects and their cloud's provider only, so that the tests of every package below nodegroup can
// use it.
package pools
