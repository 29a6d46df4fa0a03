// Package retry applies the back-offs of package backoff to a reconcile: it checks whether a Machine may ask the cloud for a
// server, records the outcome, and writes the back-offs of a group to its deployment or set. It makes no call to a cloud, and
// decides no step.
package retry
