package nodegroup

import (
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	// The tests create much garbage and keep little.
	debug.SetGCPercent(400)
	ctrl.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}
