// Package survey reads a cluster and its clouds, and reports what drover would do with them (package adoption). It writes nothing: it sends
// get, list and watch requests to Kubernetes, and creates access reviews, which store nothing. The caller must give it clouds that only
// read.
package survey
