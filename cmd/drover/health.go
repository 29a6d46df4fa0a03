package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/autoscale"
)

// addHealth serves liveness and readiness. Liveness depends only on the process itself (MC-77). A replica is ready when the
// caches of both clusters are synced and the gRPC port is open: then it can answer the autoscaler, whether or not it holds
// the lease.
func addHealth(mgr manager.Manager, target cluster.Cluster, server *autoscale.Server) error {
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
	return errors.Join(
		mgr.AddReadyzCheck("caches", synced(mgr.GetCache(), "the caches are not synced with the API server yet")),
		mgr.AddReadyzCheck("target", synced(target.GetCache(), "the caches of the cluster with the Nodes are not synced yet")),
	)
}

// synced returns a check that fails until the cache is synced. otherwise is the text of the check's error.
func synced(c cache.Cache, otherwise string) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New(otherwise)
		}
		return nil
	}
}
