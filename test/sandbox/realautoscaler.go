package sandbox

import (
	"os"
	"strings"

	"github.com/drover-project/drover/deploy"
)

// demoFlags override the shipped flags: what takes ten minutes in a real cluster takes seconds in the demo.
var demoFlags = []string{
	"--leader-elect=false", "--scan-interval=1s", "--kube-client-qps=100", "--kube-client-burst=200",
	"--scale-down-unneeded-time=8s", "--scale-down-delay-after-add=3s", "--scale-down-delay-after-failure=5s",
	"--scale-down-unready-time=10s", "--node-delete-delay-after-taint=0s", "--unremovable-node-recheck-timeout=5s",
	"--max-node-provision-time=2m", "--initial-node-group-backoff-duration=5s", "--max-node-group-backoff-duration=30s",
	"--node-group-backoff-reset-timeout=1m", "--v=4",
}

// runAutoscaler runs a real cluster-autoscaler with the flags that drover ships, the demo's times, and the options' own.
func (s *Sandbox) runAutoscaler(cloudConfig string) error {
	address, err := claim("the autoscaler's --address", "127.0.0.1:0")
	if err != nil {
		return err
	}
	args := append(flagsOf(deploy.AutoscalerFlags), demoFlags...)
	args = append(args, "--cloud-provider=externalgrpc", "--cloud-config="+cloudConfig,
		"--kubeconfig="+s.Target.Kubeconfig, "--address="+address)
	args = append(args, s.options.AutoscalerFlags...)
	env := []string{"HOME=" + s.Dir, "TMPDIR=" + s.Dir, "PATH=" + os.Getenv("PATH")}
	p, err := startProcess(autoscalerName, s.LogFile("autoscaler"), env, s.options.Autoscaler, args...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scaler = p
	return nil
}

// flagsOf parses flags, one per line. It skips empty lines and lines that begin with #.
func flagsOf(text string) []string {
	var flags []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			flags = append(flags, line)
		}
	}
	return flags
}
