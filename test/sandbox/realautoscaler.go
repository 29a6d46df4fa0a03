package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// flagsFile, in the module, holds the flags that drover recommends for cluster-autoscaler, one per line.
const flagsFile = "deploy/cluster-autoscaler/flags"

// demoFlags lie over them: what takes a real cluster ten minutes takes seconds here.
var demoFlags = []string{
	"--leader-elect=false", "--scan-interval=1s", "--kube-client-qps=100", "--kube-client-burst=200",
	"--scale-down-unneeded-time=8s", "--scale-down-delay-after-add=3s", "--scale-down-delay-after-failure=5s",
	"--scale-down-unready-time=10s", "--node-delete-delay-after-taint=0s", "--unremovable-node-recheck-timeout=5s",
	"--max-node-provision-time=2m", "--initial-node-group-backoff-duration=5s", "--max-node-group-backoff-duration=30s",
	"--node-group-backoff-reset-timeout=1m", "--v=4",
}

// runAutoscaler runs a real cluster-autoscaler with the flags that drover ships, and the demo's times.
func (s *Sandbox) runAutoscaler(ctx context.Context, cloudConfig string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	shipped, err := readFlags(filepath.Join(root, flagsFile))
	if err != nil {
		return err
	}
	address, err := claim("the autoscaler's --address", "127.0.0.1:0")
	if err != nil {
		return err
	}
	args := append(shipped, demoFlags...)
	args = append(args, "--cloud-provider=externalgrpc", "--cloud-config="+cloudConfig,
		"--kubeconfig="+s.Cluster.Kubeconfig, "--address="+address)
	env := []string{"HOME=" + s.Dir, "TMPDIR=" + s.Dir, "PATH=" + os.Getenv("PATH")}
	p, err := startProcess(autoscalerName, s.LogFile("autoscaler"), env, s.options.Autoscaler, args...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return nil
}

// readFlags reads a file of flags, one per line; empty lines and those that begin with # are left out.
func readFlags(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the autoscaler's flags: %w", err)
	}
	var flags []string
	for _, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			flags = append(flags, line)
		}
	}
	return flags, nil
}
