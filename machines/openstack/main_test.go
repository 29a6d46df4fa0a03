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
	// The tests create much garbage and keep little.
	debug.SetGCPercent(400)
	flag.Parse()
	// The tests mostly wait for the driver's next poll, so more of them run at the same time than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}
