package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/sandbox"
)

// drover is the path of the binary under test, which is built once.
var drover string

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(built(m))
}

func built(m *testing.M) int {
	// OwnFolder also removes the folder of an earlier run that was interrupted.
	dir, release, err := kube.OwnFolder("", "drover-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	defer func() { _ = os.RemoveAll(dir) }()
	if drover, err = sandbox.Build(context.Background(), dir, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
