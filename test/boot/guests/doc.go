// Package guests runs virtual machines as the servers of a cloud: QEMU, a bridge with DHCP and DNS, Nova's metadata
// service and config drive, and a server for the files that machines download. It changes the network of its process,
// which must therefore run in its own network namespace: see [Isolate].
package guests
