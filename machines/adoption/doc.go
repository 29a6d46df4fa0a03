// Package adoption predicts what drover would do with the Machines, sets and deployments of a cluster that another program, such as
// machine-controller, manages now. It calls the functions by which drover's controllers decide, and makes no decision of its own.
//
// The package is pure: it has no client, clock or logger. Package survey reads the objects that it needs.
package adoption
