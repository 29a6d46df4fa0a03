// Package survey reads a cluster and its clouds, and reports what drover would do with them (package adoption). It writes nothing:
// of Kubernetes it asks with get, list and watch, and creates access reviews, which store nothing; a cloud must be one that only
// reads.
package survey
