// Package bootstrap creates what a new server needs to become a node: its user data (cloud-init for Ubuntu, Ignition for Flatcar) and its
// bootstrap token.
//
// [Input] holds everything that user data depends on, and is rendered without I/O, so that the same input always results in the same bytes.
// [Source] collects an Input from the cluster.
package bootstrap
