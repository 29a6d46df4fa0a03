package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/autoscale"
)

// Limits of each HTTP server. controller-runtime's own servers take 1 MiB of headers from any number of clients for 32 s.
const (
	// httpHeaders is the largest size of a request's headers, in bytes; Go's server adds 4 KiB.
	httpHeaders = 8 << 10
	// httpRequest is how long a client may take to send a request, httpIdle how long a connection may be open without one.
	httpRequest, httpIdle = 5 * time.Second, 90 * time.Second
	// httpAnswer is how long a client may take to read a page.
	httpAnswer = 30 * time.Second
	// httpConnections is how many connections may be open.
	httpConnections = 64
	// httpPages is how many pages beside the metrics address may be written at the same time. Each is in memory as a whole.
	httpPages = 4
)

// pages are the pages beside the metrics. They are served from the start of the manager on.
type pages struct{ *http.ServeMux }

// newPages returns the page of the metrics. Other pages are added with Handle.
func newPages() pages {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	return pages{mux}
}

// few returns a handler that answers 503 while as many requests as httpPages are being answered.
func few(next http.Handler) http.Handler {
	slots := make(chan struct{}, httpPages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "Too many requests at the same time; try again later", http.StatusServiceUnavailable)
		}
	})
}

// addPages adds the server of the metrics and of the other pages to the manager, and that of profiles.
func addPages(mgr manager.Manager, o *options, p pages) error {
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return errors.Join(
		addServer(mgr, "--metrics-address", o.metricsAddress, newServer(few(p))),
		addServer(mgr, "--features=profiling", o.profiles(), profileServer(profiles)),
	)
}

// off is the address that turns a listener off. profilesAddress is where profiles are served: only this machine can reach it.
const (
	off             = "0"
	profilesAddress = "127.0.0.1:6060"
)

// profiles returns the address where profiles are served.
func (o *programOptions) profiles() string {
	if o.has(profiling) {
		return profilesAddress
	}
	return off
}

// newServer returns an HTTP server within the limits of this file.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, MaxHeaderBytes: httpHeaders, ReadHeaderTimeout: httpRequest, ReadTimeout: httpRequest, WriteTimeout: httpAnswer, IdleTimeout: httpIdle,
	}
}

// profileServer returns a server whose answers may take any time: a profile takes as long as its client asks for.
func profileServer(h http.Handler) *http.Server {
	s := newServer(h)
	s.WriteTimeout = 0
	return s
}

// addServer opens a port for a server and adds the server to the manager. It does nothing when the address is off.
//
// Errors: the address cannot be listened on. They name the flag.
func addServer(mgr manager.Manager, flag, address string, s *http.Server) error {
	if address == off {
		return nil
	}
	var config net.ListenConfig
	open, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag, address, err)
	}
	return mgr.Add(&manager.Server{
		Name: flag, Server: s, Listener: autoscale.NewConnections(httpConnections).Listener(open), ShutdownTimeout: ptr.To(httpRequest),
	})
}

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
