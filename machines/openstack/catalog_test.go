package openstack

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestNamesThatAreNewInTheCloud(t *testing.T) {
	t.Run("a flavor that is newer than the kept list is found at once (F-49)", func(t *testing.T) {
		b := newBench(t)
		b.active(newMachine(t, "a", seedFields()))
		b.pass(5 * time.Minute)
		b.sim.AddFlavor(sim.Flavor{Name: "new", VCPUs: 2, RAM: 4096, Disk: 20})
		b.active(newMachine(t, "b", seedFields().with("flavor", "new")))
		if got := b.calls("GET /flavors/detail"); got != 2 {
			t.Errorf("%d lists of flavors, want 2", got)
		}
	})
	t.Run("many Machines that miss the same name at once cost one more list (F-49)", func(t *testing.T) {
		b := newBench(t)
		b.active(newMachine(t, "a", seedFields()))
		b.sim.ForgetCalls()
		var all sync.WaitGroup
		for n := range 20 {
			i := b.synced(newMachine(t, fmt.Sprintf("m%d", n), seedFields().with("flavor", "new")))
			all.Go(func() {
				if err := i.EnsurePorts(b.ctx); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeFlavorNotFound {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if got := b.calls("GET /flavors/detail"); got != 1 {
			t.Errorf("%d lists of flavors, want 1", got)
		}
	})
	t.Run("a name that stays missing costs one list in 30 seconds (F-49)", func(t *testing.T) {
		b := newBench(t)
		b.active(newMachine(t, "a", seedFields()))
		i := b.synced(newMachine(t, "b", seedFields().with("flavor", "new")))
		b.sim.ForgetCalls()
		for range 600 {
			if err := i.EnsurePorts(b.ctx); err == nil {
				t.Fatal("a flavor that does not exist was found")
			}
			b.clock.Step(time.Second)
		}
		if got := b.calls("GET /flavors/detail"); got < 20 || got > 21 {
			t.Errorf("%d lists of flavors in 10 minutes, want 20", got)
		}
	})
	t.Run("an image that was uploaded again under its name is looked up again when the old one is refused (F-49)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		if err := i.EnsurePorts(b.ctx); err != nil {
			t.Fatal(err)
		}
		clear := b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusBadRequest, Times: 1,
			Body: `{"badRequest": {"code": 400, "message": "Image 1 could not be found."}}`})
		defer clear()
		b.sim.ForgetCalls()
		if _, err := i.EnsureServer(b.ctx, nil); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeImageNotFound {
			t.Fatalf("got %v", err)
		}
		if _, err := b.make(i); err != nil {
			t.Fatal(err)
		}
		if got := b.calls("GET /images"); got != 1 {
			t.Errorf("%d look-ups of the image, want 1", got)
		}
	})
}
