package main

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// busyServer answers calls about leases immediately, with the content of the request, and all other calls only when the test
// ends. It accepts fewer concurrent calls on one connection than busyCalls.
type busyServer struct {
	*httptest.Server
	release chan struct{}
	stuck   sync.WaitGroup
}

const busyCalls = 300

func newBusyServer(t *testing.T) *busyServer {
	t.Helper()
	s := &busyServer{release: make(chan struct{})}
	s.stuck.Add(busyCalls)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/leases") {
			s.stuck.Done()
			<-s.release
			return
		}
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		close(s.release)
		s.Close()
	})
	return s
}

func TestTheLeaderLeaseIsRenewedWhileTheAPIServerIsBusy(t *testing.T) {
	s := newBusyServer(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config := tuned(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca, ServerName: "example.com"}})
	all, err := kubernetes.NewForConfig(config)
	must(t, err)
	l, err := newLease(config, &options{clusterOptions: clusterOptions{namespace: "drover"}})
	must(t, err)
	for range busyCalls {
		go func() { _, _ = all.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{}) }()
	}
	s.stuck.Wait()
	t.Run("drover renews its lease in time although hundreds of its other calls wait for their answers (CAPI-55)", func(t *testing.T) {
		record := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: int(leaseLife / time.Second)}
		must(t, l.Create(t.Context(), record))
		for range 3 {
			began := time.Now()
			must(t, l.Update(t.Context(), record))
			if took := time.Since(began); took > leaseRetry || !l.Fresh(time.Now()) {
				t.Errorf("the renewal took %s; fresh: %v", took, l.Fresh(time.Now()))
			}
		}
	})
}
