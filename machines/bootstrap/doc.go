// Package bootstrap makes what a new server needs to become a node: its user data (cloud-init for Ubuntu, Ignition for
// Flatcar) and the token it joins with.
//
// What goes into user data is decided in [Input] and rendered without any I/O, so that the same input always gives the
// same bytes. [Source] gathers an Input from the cluster.
package bootstrap
