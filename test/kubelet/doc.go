// Package kubelet simulates the programs on a simulated server, and the cloud-controller-manager.
//
// A simulated kubelet uses only what a real server has. It fetches its own user data from the metadata service, reads the files
// in it, signs in to the API server with the bootstrap token in these files, and then uses its own certificate. The output of
// its units is written to the journal. It is written to the console only if the unit files in the user data configure that.
package kubelet
