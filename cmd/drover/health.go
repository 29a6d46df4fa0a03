package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/autoscale"
)

// addHealth serves liveness, which depends on nothing but the process (MC-77), and readiness: the caches are synced and
// the gRPC port is open, so that this replica can answer the autoscaler whether or not it holds the lease.
func addHealth(mgr manager.Manager, server *autoscale.Server) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("grpc", func(*http.Request) error {
		if server.Addr() == nil {
			return errors.New("the gRPC server does not listen yet")
		}
		return nil
	}); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not synced with the API server yet")
		}
		return nil
	})
}
