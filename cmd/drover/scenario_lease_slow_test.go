package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/drover-project/drover/test/kube/memory"
)

// unsteady is a transport to an API server that is slow, or fails, in a part of the time.
type unsteady struct {
	next  http.RoundTripper
	began time.Time
	// slow is how long each answer takes. In each period of every, the calls of the first away fail: with an answer 500 of an
	// API server whose etcd has no leader or, when silent is true, without an answer. When lost is true, the API server carries
	// out such a call and its answer is lost. every is 0 when no call fails.
	slow, every, away time.Duration
	silent, lost      bool
}

func (u *unsteady) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(u.slow):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	switch {
	case u.every == 0 || time.Since(u.began)%u.every >= u.away:
		return u.next.RoundTrip(r)
	case u.silent:
		return nil, errors.New("connect: connection refused")
	case u.lost:
		answer, err := u.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_ = answer.Body.Close()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"text/plain"}}, Request: r,
		Body: io.NopCloser(strings.NewReader("etcdserver: leader changed"))}, nil
}

func TestTheLeaderLeaseWhileTheAPIServerIsSlow(t *testing.T) {
	for name, tt := range map[string]struct {
		server unsteady
		stays  bool
	}{
		"stays with its holder while each answer takes four seconds (report 97)":                             {unsteady{slow: 4 * time.Second}, true},
		"stays with its holder while etcd has no leader for seven of every 20 seconds (report 98)":           {unsteady{every: 20 * time.Second, away: 7 * time.Second}, true},
		"stays with its holder while the API server restarts for seven of every 20 seconds (report 98)":      {unsteady{every: 20 * time.Second, away: 7 * time.Second, silent: true}, true},
		"stays with its holder when a renewal is carried out and its answer is lost (report 97)":             {unsteady{every: 30 * time.Second, away: 2 * time.Second, lost: true}, true},
		"goes to another replica after a minute without an API server, and never to two at once (report 97)": {unsteady{every: 10 * time.Minute, away: time.Minute, silent: true}, false},
		"goes to another replica after a minute without a leader of etcd, and never to two (report 98)":      {unsteady{every: 10 * time.Minute, away: time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, err := memory.New(memory.Options{})
				must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var electors sync.WaitGroup
				defer electors.Wait()
				defer cancel()
				var terms atomic.Int32
				replicas := [2]struct {
					lease *lease
					leads atomic.Bool
				}{}
				for k := range replicas {
					// The first replica has the lease before the second one starts, and its calls alone are slow or fail.
					transport := server.RoundTripper("drover", "system:masters")
					if k == 0 {
						slow := tt.server
						slow.next, slow.began = transport, time.Now().Add(-slow.away)
						transport = &slow
					}
					replica := &replicas[k]
					replica.lease, err = newLease(tuned(server.ConfigOver(transport)), &options{clusterOptions: clusterOptions{namespace: "kube-system"}})
					must(t, err)
					elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
						Lock: replica.lease, LeaseDuration: leaseLife, RenewDeadline: leaseDeadline, RetryPeriod: leaseRetry, ReleaseOnCancel: true, Name: leaseName,
						Callbacks: leaderelection.LeaderCallbacks{
							OnStartedLeading: func(context.Context) { terms.Add(1); replica.leads.Store(true) },
							OnStoppedLeading: func() { replica.leads.Store(false) },
						},
					})
					must(t, err)
					electors.Go(func() { elector.Run(ctx) })
					time.Sleep(12 * time.Second)
				}
				if !replicas[0].leads.Load() {
					t.Fatal("the first replica has not taken the lease")
				}
				for began := time.Now(); time.Since(began) < 15*time.Minute; time.Sleep(100 * time.Millisecond) {
					if replicas[0].leads.Load() && replicas[1].leads.Load() || replicas[0].lease.Fresh(time.Now()) && replicas[1].lease.Fresh(time.Now()) {
						t.Fatalf("both replicas lead after %s", time.Since(began))
					}
				}
				if stays := replicas[0].leads.Load(); stays != tt.stays || replicas[1].leads.Load() == stays {
					t.Errorf("leading: %v and %v, in %d terms", stays, replicas[1].leads.Load(), terms.Load())
				}
				if n := terms.Load(); n > 2 || tt.stays && n != 1 {
					t.Errorf("%d terms", n)
				}
			})
		})
	}
}
