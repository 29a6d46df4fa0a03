package openstack

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

func TestCreatesInObserveMode(t *testing.T) {
	t.Parallel()
	b := newIdleBench(t)
	var noted []string
	b.options.Observe = func(r *http.Request) { noted = append(noted, r.Method+" "+r.URL.Path) }
	b.start()
	i := b.synced(newMachine(t, "a", seedFields()))
	for range 3 {
		if _, err := b.make(i); !fault.Is(err, fault.Transient) {
			t.Fatalf("a port that is not made: %v", err)
		}
		b.clock.Step(5 * time.Second)
	}
	p, err := i.project()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a create that is not sent is not looked for in the cloud", func(t *testing.T) {
		if own := p.ResourcesOf(i.machine.UID); len(own.InDoubt) > 0 {
			t.Errorf("in doubt: %v", own.InDoubt)
		}
	})
	t.Run("only the create of the port is noted, each time", func(t *testing.T) {
		if len(noted) != 3 || slices.ContainsFunc(noted, func(r string) bool { return r != "POST /network/v2.0/ports" }) {
			t.Errorf("noted: %v", noted)
		}
	})
}
