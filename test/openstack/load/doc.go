// Package load makes the calls of many Machines to a simulated cloud, as the Machine controller does and as a bare client
// does, and measures how well the cloud was used.
package load
