package main

import (
	"encoding/json"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// asLogger is an environment variable. When it is set, the test binary logs a line through every logger
// and ends.
const asLogger = "DROVER_TEST_LOGS"

func logEverything() {
	setLoggers(0)
	ctrl.Log.Info("from drover")
	klog.Info("from klog")
	klog.ErrorS(os.ErrClosed, "from klog, with an error")
	log.Print("from the standard log")
	slog.Info("from slog")
	grpclog.Error("from grpc")
	grpclog.Info("from grpc, which is not an error")
}

func TestEveryLoggerWritesJSON(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asLogger+"=1")
	out, err := cmd.CombinedOutput()
	must(t, err)
	t.Run("klog, gRPC and the standard log write to the same JSON log (F-46)", func(t *testing.T) {
		lines := jsonLines(t, string(out))
		for _, want := range []string{"from drover", "from klog", "from klog, with an error", "from the standard log", "from slog", "from grpc"} {
			if !strings.Contains(string(out), `"msg":"`+want+`"`) {
				t.Errorf("there is no line %q:\n%s", want, out)
			}
		}
		if lines != 6 {
			t.Errorf("%d lines, want 6:\n%s", lines, out)
		}
	})
}

// jsonLines fails the test for each line of a log that is not JSON, and returns the number of lines.
func jsonLines(t *testing.T, text string) (lines int) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		lines++
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	return lines
}
