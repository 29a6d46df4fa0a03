//go:build cluster

package main

import (
	"context"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/test/day"
)

// dayLog is an environment variable that names a file for drover's own log of the simulated day.
const dayLog = "DROVER_TEST_DAY_LOG"

// dayRetry is the time between two renewals of the lease in the simulated day. With the usual time, the renewals would be half of
// the test's work. dayRetry is shorter than leaseFresh, so the leader may always create servers. leaseDeadline exceeds dayRetry
// by more than the jitter that the election adds.
const dayRetry = 6 * time.Second

// This test simulates a day of a cluster in virtual time (package day). It connects the parts of drover in the same way as the
// binary does. The test has a process of its own, because the drovers of that day share global registries with those of other
// tests.
func TestDroverRunsForASimulatedDay(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	playDay(t, day.Play)
	t.Run("after the day, all metrics in docs/metrics.md are registered, except drover_grpc_certificate_expiry_seconds", testEveryMetricIsRegistered)
}

// This test simulates a shorter day, in which the cloud and the watches fail while groups grow and shrink (F-59, F-62, F-63, F-65, F-99).
func TestDroverRunsForADayOfFaults(t *testing.T) {
	if ownProcess(t) {
		playDay(t, day.PlayFaults)
	}
}

// playDay plays a day with drover in a bubble.
func playDay(t *testing.T, play func(testing.TB, day.Starter)) {
	t.Helper()
	// Rare garbage collections save time: a simulated day makes much garbage and retains little memory.
	debug.SetGCPercent(800)
	log := logr.Discard()
	if name := os.Getenv(dayLog); name != "" {
		file, err := os.Create(name)
		must(t, err)
		log = funcr.New(func(prefix, args string) { _, _ = file.WriteString(prefix + " " + args + "\n") }, funcr.Options{LogTimestamp: true})
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	synctest.Test(t, func(t *testing.T) { play(t, playedDrover) })
}

// unregistered are the metrics that drover does not register with the flags of the simulated day.
var unregistered = []string{"drover_grpc_certificate_expiry_seconds"}

// testEveryMetricIsRegistered compares the registry with docs/metrics.md, which lists the metrics that the source declares.
func testEveryMetricIsRegistered(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	registered := map[string]bool{}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		metrics.Registry.(*prometheus.Registry).Describe(descriptions)
	}()
	for d := range descriptions {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		registered[name] = true
	}
	rows := regexp.MustCompile("(?m)^\\| `(drover_[a-z_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(rows) == 0 {
		t.Fatal("docs/metrics.md has no rows")
	}
	for _, row := range rows {
		if name := row[1]; !registered[name] && !slices.Contains(unregistered, name) {
			t.Errorf("%s is declared and not registered: pass it to Register in the file that declares it", name)
		}
	}
}

// playedDrover runs a drover with the default flags, without sockets, until ctx ends.
func playedDrover(ctx context.Context, c day.Connections, started func(day.Program)) error {
	metrics.Registry = prometheus.NewRegistry()
	o := defaults()
	o.namespace, o.metricsAddress, o.healthAddress, o.features, o.grpcAddress = day.Namespace, "0", "0", []string{grpcInsecure}, autoscale.DefaultAddress
	o.leaseRetry = dayRetry
	credentials, err := credentialsFrom(o, c.Environment)
	if err != nil {
		return err
	}
	return serve(ctx, o, surroundings{
		cluster: tuned(c.Kube), transport: c.Cloud, several: true, credentials: credentials,
		local: func(s *autoscale.Server, groups *nodegroup.Groups) {
			started(day.Program{Groups: s.Local(), Ready: groups.Synced()})
		},
	})
}
