// Package proto is cluster-autoscaler's externalgrpc protocol, of releases 1.25 to 1.37 at once. The Go files are
// generated from externalgrpc.proto.
package proto

//go:generate sh -c "cd .. && go tool -modfile=hack/tools/go.mod buf generate"
