// Package machinecontroller simulates machine-controller and operating-system-manager. It has their kinds and roles, and
// does what they do with a MachineDeployment, its sets, its Machines and their servers. It reads whole objects into its
// own types and writes them back with an update, so it drops every field that drover has added.
package machinecontroller
