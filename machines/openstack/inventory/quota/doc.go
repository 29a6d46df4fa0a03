// Package quota keeps creates from an OpenStack project whose quota is exhausted: it sets room aside for Machines, watches the quotas
// that were hit, and finds out when there is room again.
//
// A [Book] is plain data without a lock and a clock. [Read] is the one function that makes a call. The package has no server, no
// port and no Machine but by its UID.
package quota
