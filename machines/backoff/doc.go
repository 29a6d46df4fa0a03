// Package backoff decides when a Machine may ask the cloud for a server again after a failure.
//
//   - [Groups] holds the failures that concern all Machines of a node group: the capacity back-offs of a placement (quota, lack
//     of capacity, a spec that cannot be satisfied) and the outcomes of recent joins. After a wait, one Machine probes for its
//     whole group (a half-open probe).
//   - [Machines] holds the failures that concern one Machine alone.
//
// The decisions are pure functions of the stored failures, the requested server and the time. The two stores mirror the status of
// groups and Machines, and have their own locks. The package has no client, clock or logger: the caller reads the objects, passes the
// time, and writes the status. It does not depend on a cloud or on Nodes.
package backoff
