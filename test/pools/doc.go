// Package pools builds clusters for tests of node groups: MachineDeployments with bounds, their MachineSets, Machines and Nodes,
// on OpenStack. It imports only the types of these objects and the OpenStack provider, so that the tests of every package below
// nodegroup can use it.
package pools
