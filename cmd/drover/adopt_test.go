package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runAsDrover runs drover with the arguments and without a cluster. It returns drover's output on stderr and the exit
// code.
func runAsDrover(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = []string{asDrover + "=1", "HOME=" + t.TempDir()}
	log := &strings.Builder{}
	cmd.Stderr = log
	_ = cmd.Run()
	return log.String(), cmd.ProcessState.ExitCode()
}

func TestTheCommandAdoptRefusesInvalidArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"adopt without --dry-run is refused with the hint to start drover instead": {nil, "start drover"},
		"an unknown output format is refused":                                      {[]string{"--dry-run", "-o", "yaml"}, "neither text nor json"},
		"an invalid value of one of drover's own flags is refused":                 {[]string{"--dry-run", "--machine-controller-lease=x"}, "--machine-controller-lease"},
		"a missing kubeconfig is refused":                                          {[]string{"--dry-run", "--kubeconfig=" + filepath.Join(t.TempDir(), "none")}, "--kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			if text, code := runAsDrover(t, append([]string{"adopt"}, tt.args...)...); code != exitFailed || !strings.Contains(text, tt.says) {
				t.Errorf("the exit code is %d, want %d; it says %q, want %q", code, exitFailed, text, tt.says)
			}
		})
	}
}
