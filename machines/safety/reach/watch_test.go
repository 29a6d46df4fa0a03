package reach

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNone is the error of a server that cannot be reached.
var errNone = errors.New("connection refused")

// fakeServer is an API server that answers, refuses, or never answers.
type fakeServer struct {
	reads, version atomic.Int64
	// down reports whether connections are refused. hangs reports whether calls get no answer. forbids reports whether the
	// caller may not read. holder is the holder of the lease.
	down, hangs, forbids atomic.Bool
	holder               atomic.Value
}

func (s *fakeServer) answer(ctx context.Context) error {
	s.reads.Add(1)
	switch {
	case s.hangs.Load():
		<-ctx.Done()
		return ctx.Err()
	case s.down.Load():
		return errNone
	case s.forbids.Load():
		return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	}
	return nil
}

func (s *fakeServer) Get(ctx context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	if holder, ok := s.holder.Load().(string); ok {
		into.(*coordinationv1.Lease).Spec.HolderIdentity = ptr.To(holder)
	}
	into.SetResourceVersion(time.Duration(s.version.Load()).String())
	return nil
}

func (s *fakeServer) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	return s.answer(ctx)
}

// watched runs a Watch in virtual time. The Watch probes at 0 s, 5 s, 10 s, and so on; the scenario starts between two
// probes.
func watched(t *testing.T, scenario func(t *testing.T, w *Watch, control, target *fakeServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		control, target := &fakeServer{}, &fakeServer{}
		w := New(Options{Control: control, Target: target, Clock: clock.RealClock{}, Lease: types.NamespacedName{Namespace: "drover", Name: "drover"}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Start(ctx) }()
		time.Sleep(time.Second)
		scenario(t, w, control, target)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func expect(t *testing.T, w *Watch, frozen bool) {
	t.Helper()
	if stale, _ := w.Stale(); (stale != "") != frozen {
		t.Errorf("Stale() = %q, want a reason: %v", stale, frozen)
	}
}

func TestDroversDecisionsStopWhileAnAPIServerDoesNotAnswer(t *testing.T) {
	for name, outage := range map[string]func(control, target *fakeServer, away bool){
		"decisions stop while the control cluster's API server refuses connections (MCM-79)": func(c, _ *fakeServer, away bool) { c.down.Store(away) },
		"decisions stop while the target cluster's API server refuses connections (MCM-79)":  func(_, c *fakeServer, away bool) { c.down.Store(away) },
		"decisions stop while the target cluster's API server does not answer (MCM-79)":      func(_, c *fakeServer, away bool) { c.hangs.Store(away) },
		"decisions stop while neither API server answers (MCM-79)":                           func(c, d *fakeServer, away bool) { c.hangs.Store(away); d.down.Store(away) },
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, w *Watch, control, target *fakeServer) {
				expect(t, w, false)
				outage(control, target, true)
				time.Sleep(28 * time.Second)
				expect(t, w, false)
				time.Sleep(2 * time.Second)
				expect(t, w, true)
				if w.Away() == "" {
					t.Error("Away() returned no reason")
				}
				time.Sleep(time.Hour)
				expect(t, w, true)
				outage(control, target, false)
				began := time.Now()
				time.Sleep(29 * time.Second)
				expect(t, w, true)
				if why := w.Away(); why != "" {
					t.Errorf("Away() = %q although both answer", why)
				}
				time.Sleep(11 * time.Second)
				expect(t, w, false)
				if _, since := w.Stale(); since.Sub(began) < 30*time.Second || since.Sub(began) > 40*time.Second {
					t.Errorf("timers start %v after the outage (MCM-51)", since.Sub(began))
				}
			})
		})
	}
	t.Run("decisions continue while the target cluster's API server forbids reads, because that is an answer, too", func(t *testing.T) {
		watched(t, func(t *testing.T, w *Watch, _, target *fakeServer) {
			target.forbids.Store(true)
			time.Sleep(time.Hour)
			expect(t, w, false)
		})
	})
	t.Run("decisions continue while both API servers answer other calls, even if drover's periodic reads fail", func(t *testing.T) {
		watched(t, func(t *testing.T, w *Watch, control, target *fakeServer) {
			control.down.Store(true)
			target.down.Store(true)
			for range 12 {
				time.Sleep(10 * time.Second)
				w.AnsweredControl()
				w.AnsweredTarget()
				expect(t, w, false)
			}
		})
	})
	t.Run("drover reads from each API server once every 5 s to check that the API server answers (F-58)", func(t *testing.T) {
		watched(t, func(t *testing.T, _ *Watch, control, target *fakeServer) {
			before := []int64{control.reads.Load(), target.reads.Load()}
			time.Sleep(time.Minute)
			if c, d := control.reads.Load()-before[0], target.reads.Load()-before[1]; c != 12 || d != 12 {
				t.Errorf("%d and %d reads in a minute, want 12 each", c, d)
			}
		})
	})
	t.Run("the metric drover_frozen_api is 1 for the cluster whose API server does not answer, and 0 for the other cluster (MCM-79)", func(t *testing.T) {
		watched(t, func(t *testing.T, w *Watch, _, target *fakeServer) {
			target.down.Store(true)
			time.Sleep(time.Minute)
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(w)
			families, err := registry.Gather()
			if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
				t.Fatalf("the metrics are %v, %v", families, err)
			}
			for _, m := range families[0].GetMetric() {
				want := 0.0
				if m.GetLabel()[0].GetValue() == "target" {
					want = 1
				}
				if m.GetGauge().GetValue() != want {
					t.Errorf("got %v", m)
				}
			}
		})
	})
	t.Run("decisions never stop in a controller that is configured without the watch of the API servers", func(t *testing.T) {
		var w *Watch
		expect(t, w, false)
	})
}

func TestDecisionsStopWhileTheOnlyAPIServerDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &fakeServer{}
		w := New(Options{Control: one, Clock: clock.RealClock{}})
		w.Probe(t.Context())
		expect(t, w, false)
		w.AnsweredTarget()
		one.down.Store(true)
		time.Sleep(30 * time.Second)
		w.Probe(t.Context())
		if stale, _ := w.Stale(); !strings.HasPrefix(stale, "the API server has not answered since") {
			t.Errorf("(MCM-79) Stale() = %q", stale)
		}
	})
}

func TestTimeCountsAsTimeWithoutALeaderWhileDroversLeaseIsReleasedOrNotRenewed(t *testing.T) {
	// renewed renews the lease every 10 s during the time d.
	renewed := func(control *fakeServer, d time.Duration) {
		for ; d > 0; d -= 10 * time.Second {
			time.Sleep(10 * time.Second)
			control.version.Add(1)
		}
	}
	watched(t, func(t *testing.T, w *Watch, control, _ *fakeServer) {
		control.holder.Store("one")
		renewed(control, 5*time.Minute)
		if d := w.Leaderless(); d >= 30*time.Second {
			t.Errorf("a renewed lease counts as not held for %v (MCM-80)", d)
		}
		time.Sleep(2 * time.Minute)
		if d := w.Leaderless(); d < time.Minute {
			t.Errorf("a lease that is not renewed counts as not held for %v (MCM-80)", d)
		}
		control.holder.Store("")
		renewed(control, 2*time.Minute)
		if d := w.Leaderless(); d < 3*time.Minute {
			t.Errorf("a released lease counts as not held for %v (MCM-80)", d)
		}
	})
}
