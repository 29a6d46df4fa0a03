package main

import (
	"context"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/test/day"
)

// dayLog is an environment variable that names a file for drover's own log of the simulated day.
const dayLog = "DROVER_TEST_DAY_LOG"

// This test simulates a day of a cluster in virtual time, with drover connected as in this package: see package day. The
// test has a process of its own, because the drovers of a day share global registries with those of other tests.
func TestADay(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	// A simulated day makes much garbage and retains little memory.
	debug.SetGCPercent(400)
	log := logr.Discard()
	if name := os.Getenv(dayLog); name != "" {
		file, err := os.Create(name)
		must(t, err)
		log = funcr.New(func(prefix, args string) { _, _ = file.WriteString(prefix + " " + args + "\n") }, funcr.Options{LogTimestamp: true})
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	synctest.Test(t, func(t *testing.T) { day.Play(t, playedDrover) })
}

// playedDrover runs a drover with the default flags, without sockets, until ctx ends.
func playedDrover(ctx context.Context, c day.Connections, started func(day.Program)) error {
	metrics.Registry = prometheus.NewRegistry()
	o := defaults()
	o.namespace, o.metricsAddress, o.healthAddress, o.grpcInsecure, o.grpcAddress = day.Namespace, "0", "0", true, autoscale.DefaultAddress
	return serve(ctx, o, surroundings{
		cluster: tuned(c.Kube), transport: c.Cloud, several: true,
		credentials: client.CredentialsFromEnvironment(func(name string) string {
			for _, variable := range c.Environment {
				if value, found := strings.CutPrefix(variable, name+"="); found {
					return value
				}
			}
			return ""
		}),
		local: func(s *autoscale.Server, ready <-chan struct{}) {
			started(day.Program{Groups: s.Local(), Ready: ready})
		},
	})
}
