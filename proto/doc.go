// Package proto is cluster-autoscaler's externalgrpc protocol. It covers the releases 1.25 to 1.37. The Go files
// are generated from externalgrpc.proto.
package proto

//go:generate sh -c "cd .. && go tool -modfile=hack/tools/go.mod buf generate"
