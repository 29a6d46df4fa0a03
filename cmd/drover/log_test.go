package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc/grpclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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

// asReader is an environment variable with the URL of an API server. When it is set, the test binary reads a Secret with the
// highest log level, logs a text that is written backwards, and ends.
const asReader = "DROVER_TEST_READS"

func readVerbosely(url string) {
	setLoggers(10)
	config := &rest.Config{Host: url, BearerToken: "t0ken"}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("ns").Get(ctrl.LoggerInto(context.Background(), ctrl.Log), "s", metav1.GetOptions{}); err != nil {
		ctrl.Log.Error(err, "Reading")
	}
	ctrl.Log.V(7).Info("Details", "name", "abc\u202edef\U000e0001")
}

func TestTheHighestLogLevelShowsNoSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"stringData":{"password":"cGFzc3dvcmQ"}}`)
	}))
	defer server.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asReader+"="+server.URL)
	out, err := cmd.CombinedOutput()
	must(t, err)
	jsonLines(t, string(out))
	t.Run("with --v=10 drover logs details, and neither bodies nor tokens (F-98)", func(t *testing.T) {
		if !strings.Contains(string(out), `"msg":"Details"`) {
			t.Errorf("it shows no details:\n%s", out)
		}
		if strings.Contains(string(out), "cGFzc3dvcmQ") || strings.Contains(string(out), "t0ken") {
			t.Errorf("it shows the body or the token:\n%s", out)
		}
	})
	t.Run("a character that changes the direction of text is escaped in the log (F-98)", func(t *testing.T) {
		if strings.ContainsRune(string(out), '\u202e') || !strings.Contains(string(out), `abc\u202edef\udb40\udc01`) {
			t.Errorf("got %s", out)
		}
	})
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
