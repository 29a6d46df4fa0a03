// Package servers holds what is known of the servers of one project: the rows of the shared lists, merged one list after the other, and
// what drover has recorded for each server.
//
// It is plain data: it has no lock, no clock, and makes no call. Times are arguments. It does not deal with ports and quotas. A server that is missing from a list counts as missing, not as gone, because absence does not prove that a
// server is gone.
package servers
