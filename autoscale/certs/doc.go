// Package certs creates and renews the certificates of the gRPC connection between cluster-autoscaler and drover. They are in
// two Secrets: one holds drover's own authority and the server's certificate, the other the autoscaler's client certificate.
// The package reads and writes only these two Secrets. Pure functions decide what to create, and when.
package certs
