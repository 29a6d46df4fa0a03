package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/kube/memory"
	"github.com/drover-project/drover/test/sample"
)

var (
	seeds    = flag.Uint64("seeds", 1, "the number of seeds with which every crash point is tried")
	compared = flag.Int("compared-stride", sample.Or(3, 1), "compare runs with the same seed in every nth scenario")
	stride   = flag.Int("stride", sample.Or(293, 7), "try every nth crash point of a scenario, and five times as many of the first scenario")
	seed     = flag.Int64("seed", -1, "try only this seed")
	scenario = flag.Int("scenario", -1, "try only the scenario of this number")
	crash    = flag.Int("crash", -1, "try only the crash point of this number (a failed test prints it)")
)

// catalog holds the kinds that the simulated API server knows. All runs share it.
var catalog *memory.Catalog

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	objects, err := deploy.Objects("crds")
	if err == nil {
		catalog, err = memory.NewCatalog(objects...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The tests create and drop thousands of small clusters, so collecting garbage less often saves time.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
