// Package quota blocks creates in an OpenStack project whose quota is exhausted: it reserves free quota for Machines, watches exhausted
// quotas, and finds out when there is free quota again.
//
// A [Book] is plain data without a lock or a clock. [Read] is the only function that makes a call. The package knows nothing of servers
// and ports, and identifies Machines by their UID.
package quota
