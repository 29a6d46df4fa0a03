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
	// Namespace and account are what drover's manifests name its own.
	namespace = "drover"
	account   = "drover"
	// droverStart bounds the time to ready.
	droverStart = time.Minute
	pollEvery   = 50 * time.Millisecond
)

// droverKubeconfig writes a kubeconfig with the service account's token, so that drover may do what its manifests
// allow and no more.
func droverKubeconfig(ctx context.Context, c *kube.Cluster, path string) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	seconds := int64((24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a token for %s/%s: %w", namespace, account, err)
	}
	return kube.WriteKubeconfig(path, c.ConfigForToken(token.Status.Token))
}

// startDrover runs drover's binary and returns once it is ready.
func (s *Sandbox) startDrover(ctx context.Context) error {
	kubeconfig := filepath.Join(s.Dir, "drover.kubeconfig")
	if err := droverKubeconfig(ctx, s.Cluster, kubeconfig); err != nil {
		return err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + namespace,
		"--grpc-address=" + s.options.GRPCAddress, "--metrics-address=" + s.options.MetricsAddress,
		"--health-address=" + s.options.HealthAddress,
		"--grpc-cert=" + s.pki.serverCert, "--grpc-key=" + s.pki.serverKey, "--grpc-client-ca=" + s.pki.ca,
		"--grpc-allowed-clients=" + autoscalerName,
	}, s.options.DroverFlags...)
	env := append([]string{"HOME=" + s.Dir, "TMPDIR=" + s.Dir, "PATH=" + os.Getenv("PATH")}, credentials(s.Cloud, s.options.Password)...)
	p, err := startProcess("drover", s.LogFile("drover"), env, s.options.Drover, args...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return awaitReady(ctx, p, func(ctx context.Context) bool {
		return answersOK(ctx, "http://"+s.options.HealthAddress+"/readyz") && accepts(s.options.GRPCAddress)
	})
}

// awaitReady asks whether a program is ready until it is, the program has ended, or it takes too long.
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

// accepts tells whether somebody listens there.
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
