// Package servers holds what is known of the servers of one project: the rows of the shared lists, applied one list after the other,
// and what drover noted beside them.
//
// It is plain data: no lock, no clock, no call. Times come in as arguments. It has nothing of ports, quotas and the mass-deletion
// guard. A server that a list lacks is missing, never gone: absence is not proof.
package servers
