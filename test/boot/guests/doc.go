// Package guests runs virtual machines as the servers of a cloud: QEMU, a bridge with DHCP and names, Nova's metadata service and
// config drive, and a server for what machines download. It changes the network of its process, which must
// therefore run in a network namespace of its own: see [Isolate].
package guests
