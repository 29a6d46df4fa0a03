package openstack

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	// The tests allocate much memory and keep little of it. So a less frequent garbage collection makes them faster.
	debug.SetGCPercent(400)
	flag.Parse()
	// The tests mostly wait for the driver's next poll. So more of them may run at the same time than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}
