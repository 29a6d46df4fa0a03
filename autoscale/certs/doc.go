// Package certs makes the certificates of the gRPC connection between cluster-autoscaler and drover and keeps them in two Secrets:
// an authority of drover's own with the server's certificate, and the certificate that the autoscaler shows. It renews them in
// time. It reads and writes these two Secrets and nothing else; what has to be made, and when, is decided in pure functions.
package certs
