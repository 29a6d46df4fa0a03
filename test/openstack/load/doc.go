// Package load makes the calls for many Machines to a simulated cloud, both as the Machine controller and as a bare
// client. It measures how well the cloud was used.
package load
