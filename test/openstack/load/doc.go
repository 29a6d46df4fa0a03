// Package load makes the calls for many Machines to a simulated cloud, either with drover's driver or with a simple
// client that makes the same calls without drover's decisions (Bare). It measures how long the cloud was idle although
// a Machine waited.
package load
