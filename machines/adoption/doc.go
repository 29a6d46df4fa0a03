// Package adoption says beforehand what drover would do with the Machines, sets and deployments of a cluster that another program,
// such as machine-controller, looks after now. It asks the functions by which the controllers decide, and decides nothing itself.
//
// The package is pure: it has no client, clock or logger. Package survey reads what it needs.
package adoption
