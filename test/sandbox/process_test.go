package sandbox

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheErrorOfAFailedProgramOfTheSandboxContainsTheLastLinesOfItsOutput(t *testing.T) {
	p, err := startProcess("drover", filepath.Join(t.TempDir(), "log"), nil, "/bin/sh", "-c", "echo no such flag >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if err := p.failure(); err == nil || !strings.Contains(err.Error(), "drover ended (exit status 3)") || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("got %v", err)
	}
}

func TestStoppingAProgramOfTheSandboxWaitsUntilTheProgramHasEnded(t *testing.T) {
	p, err := startProcess("drover", filepath.Join(t.TempDir(), "log"), nil, "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.failure(); err != nil {
		t.Errorf("while it runs: got %v", err)
	}
	p.stop()
	select {
	case <-p.ended:
	default:
		t.Error("it still runs")
	}
}
