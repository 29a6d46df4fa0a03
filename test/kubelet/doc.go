// Package kubelet plays the part of what runs on a simulated server, and of the cloud-controller-manager beside it.
//
// A simulated kubelet knows nothing but what its server would: it fetches its own user data from the metadata service,
// takes everything it needs out of the files written there, proves itself to the API server with the bootstrap token it
// found, and goes on under its own certificate. What its units print goes
// to the journal, and to the console only where their files in the user data say so.
package kubelet
