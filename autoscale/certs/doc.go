// Package certs creates and renews the certificates of the gRPC connection between cluster-autoscaler and drover, in two
// Secrets: one with drover's own authority and the server's certificate, one with the client certificate of the autoscaler. It
// reads and writes these two Secrets only; pure functions decide what to create, and when.
package certs
