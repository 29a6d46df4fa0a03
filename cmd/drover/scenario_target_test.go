//go:build cluster

package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/test/kube"
)

func TestATargetClusterThatDoesNotAnswerAtTheStart(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	target := kube.ForTest(t, kube.Options{})
	target.StopAPIServer()
	health := freePort(t)
	drover := p.replica("drover", "--target-kubeconfig="+target.Kubeconfig, "--health-address="+health)
	answers := func(page string, want int) func() bool {
		return func() bool { return status(t, "http://"+health+page) == want }
	}
	t.Run("while the target cluster does not answer, drover is alive but not ready, and does not take the lease", func(t *testing.T) {
		p := p.in(t)
		p.until("drover is alive", answers("/healthz", http.StatusOK))
		p.until("drover says that it is not ready", answers("/readyz", http.StatusInternalServerError))
		if p.lease().Spec.HolderIdentity != nil {
			t.Error("it holds the lease")
		}
	})
	t.Run("once the target cluster answers, drover is ready and takes the lease", func(t *testing.T) {
		p := p.in(t)
		must(t, target.StartAPIServer(t.Context()))
		p.until("drover is ready", answers("/readyz", http.StatusOK))
		p.until("drover leads", func() bool { return p.lease().Spec.HolderIdentity != nil })
	})
	t.Run("the log names the target cluster for which drover waited", func(t *testing.T) {
		must(t, drover.Process.Signal(syscall.SIGTERM))
		must(t, drover.Wait())
		if log := fmt.Sprint(drover.Stdout); !strings.Contains(log, "Waiting for the cluster with the Nodes") || !strings.Contains(log, target.Config.Host) {
			t.Errorf("it does not:\n%s", log)
		}
	})
}
