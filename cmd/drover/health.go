package main

import (
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/autoscale"
)

// addHealth serves liveness and readiness. Liveness depends only on the process itself (MC-77). A replica is ready while it answers the
// autoscaler, whether or not it holds the lease: it listens, which it does only after the caches of both clusters are synced, and both
// API servers and the watches are fresh enough for Refresh.
func addHealth(mgr manager.Manager, server *autoscale.Server, address string) error {
	checks := http.NewServeMux()
	for path, handler := range map[string]*healthz.Handler{
		"/healthz": {Checks: map[string]healthz.Checker{"ping": healthz.Ping}},
		"/readyz":  {Checks: map[string]healthz.Checker{"grpc": func(*http.Request) error { return server.Ready() }}},
	} {
		checks.Handle(path, http.StripPrefix(path, handler))
		checks.Handle(path+"/", http.StripPrefix(path, handler))
	}
	return addServer(mgr, "--health-address", address, newServer(checks))
}
