package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/test/kube"
)

const (
	// Namespace and account are the namespace and the service account in drover's manifests.
	Namespace = "drover"
	account   = "drover"
	// droverStart is how long drover may take to become ready.
	droverStart = time.Minute
	pollEvery   = 50 * time.Millisecond
)

// droverKubeconfig writes a kubeconfig with the service account's token, so that drover has exactly the permissions of its
// manifests.
func droverKubeconfig(ctx context.Context, c *kube.Cluster, path string) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	seconds := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a token for %s/%s: %w", Namespace, account, err)
	}
	return kube.WriteKubeconfig(path, c.ConfigForToken(token.Status.Token))
}

// replica is one replica of drover.
type replica struct {
	name                  string
	grpc, metrics, health string
	// process is nil while the replica must not run. The sandbox's lock guards it.
	process *process
}

// startDrovers runs drover's binary once for each replica, and returns when all are ready.
func (s *Sandbox) startDrovers(ctx context.Context) error {
	if err := s.writeKubeconfigs(ctx); err != nil {
		return err
	}
	for n := range s.options.Replicas {
		r := &replica{name: "drover", grpc: s.options.GRPCAddress, metrics: s.options.MetricsAddress, health: s.options.HealthAddress}
		if n > 0 {
			var err error
			if r, err = anotherReplica(n); err != nil {
				return err
			}
		}
		s.mu.Lock()
		s.replicas = append(s.replicas, r)
		s.mu.Unlock()
		if err := s.startReplica(ctx, r); err != nil {
			return err
		}
	}
	if s.options.Replicas == 1 {
		return nil
	}
	var err error
	s.front, err = newFront(s.replicas[0].grpc)
	return err
}

// anotherReplica returns a replica with its own addresses.
func anotherReplica(n int) (*replica, error) {
	r := &replica{name: fmt.Sprintf("drover-%d", n)}
	for _, address := range []*string{&r.grpc, &r.metrics, &r.health} {
		free, err := claim("an address of "+r.name, "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*address = free
	}
	return r, nil
}

func (s *Sandbox) droverConfig() string { return filepath.Join(s.Dir, "drover.kubeconfig") }

func (s *Sandbox) targetConfig() string { return filepath.Join(s.Dir, "drover-target.kubeconfig") }

// writeKubeconfigs writes drover's kubeconfigs.
func (s *Sandbox) writeKubeconfigs(ctx context.Context) error {
	if err := droverKubeconfig(ctx, s.Cluster, s.droverConfig()); err != nil || !s.options.TwoClusters {
		return err
	}
	return droverKubeconfig(ctx, s.Target, s.targetConfig())
}

// startReplica runs one drover and returns once it is ready.
func (s *Sandbox) startReplica(ctx context.Context, r *replica) error {
	args, err := s.arguments(r)
	if err != nil {
		return err
	}
	env := []string{"HOME=" + s.Dir, "TMPDIR=" + s.Dir, "PATH=" + os.Getenv("PATH")}
	p, err := startProcess(r.name, s.LogFile(r.name), env, s.options.Drover, args...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	r.process = p
	s.mu.Unlock()
	return awaitReady(ctx, p, func(ctx context.Context) bool {
		return answersOK(ctx, "http://"+r.health+"/readyz") && accepts(r.grpc)
	})
}

// awaitReady polls a program until it is ready. It fails when the program ends or when it takes too long.
func awaitReady(ctx context.Context, p *process, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, droverStart, fmt.Errorf("%s is not ready after %s", p.name, droverStart))
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if err := p.failure(); err != nil {
			return err
		}
		if ready(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), fmt.Errorf("the last lines of its log:\n%s", p.tail()))
		case <-ticker.C:
		}
	}
}

// accepts reports whether a process listens on the address.
func accepts(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func answersOK(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
