// Package kubelet simulates the programs on a simulated server, and the cloud-controller-manager.
//
// A simulated kubelet uses only what a real server has: it fetches its own user data from the metadata service, reads the files
// in it, signs in to the API server with the bootstrap token there, and then uses its own certificate. The output of its units
// is written to the journal, and to the console only where their files in the user data say so.
package kubelet
