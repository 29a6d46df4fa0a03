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

func TestAdoptWithoutACluster(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"without --dry-run it says that taking over needs no command": {nil, "start drover"},
		"an output that does not exist is refused":                    {[]string{"--dry-run", "-o", "yaml"}, "neither text nor json"},
		"a wrong flag of drover's own is refused":                     {[]string{"--dry-run", "--machine-controller-lease=x"}, "--machine-controller-lease"},
		"without a cluster it fails":                                  {[]string{"--dry-run", "--kubeconfig=" + filepath.Join(t.TempDir(), "none")}, "--kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			if text, code := runAsDrover(t, append([]string{"adopt"}, tt.args...)...); code != exitFailed || !strings.Contains(text, tt.says) {
				t.Errorf("the exit code is %d, want %d; it says %q, want %q", code, exitFailed, text, tt.says)
			}
		})
	}
}
