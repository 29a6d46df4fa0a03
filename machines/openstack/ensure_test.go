package openstack

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestReplacedImage(t *testing.T) {
	t.Parallel()
	t.Run("the image is looked up again by its name when the cloud refuses the old image's ID (F-49)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		if err := i.ensurePorts(b.ctx); err != nil {
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

func TestSpecOfAMachineIsResolvedOnce(t *testing.T) {
	t.Parallel()
	t.Run("the server is created without another look-up of flavor and image when the ports already exist", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		if err := i.ensurePorts(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.clock.Step(11 * time.Minute) // the cached results of look-ups by name have expired
		b.sim.ForgetCalls()
		if _, err := i.EnsureServer(b.ctx, nil); err != nil {
			t.Fatal(err)
		}
		if flavors, images := b.calls("GET /flavors/detail"), b.calls("GET /images"); flavors+images > 0 {
			t.Errorf("got %d lists of flavors and %d of images, want none", flavors, images)
		}
	})
}

func TestAnErrorAboutAFloatingIPThatCannotBeMadeNamesTheRemedy(t *testing.T) {
	const remedy = "; drover takes no floating IP that exists already: delete those of the project that nobody uses"
	for name, tc := range map[string]struct{ err, want *fault.Error }{
		"the pool has no free address": {fault.New(fault.NoCapacity, fault.CodeAddressesExhausted, "full"), fault.New(fault.NoCapacity, fault.CodeIPPoolExhausted, "full"+remedy)},
		"the quota is exhausted":       {fault.New(fault.Quota, fault.CodeFloatingIPQuotaExceeded, "quota"), fault.New(fault.Quota, fault.CodeFloatingIPQuotaExceeded, "quota"+remedy)},
		"the cloud does not answer":    {fault.New(fault.Transient, fault.CodeServerError, "500"), fault.New(fault.Transient, fault.CodeServerError, "500")},
	} {
		t.Run(name+" (F-135)", func(t *testing.T) {
			if e := fault.Of(poolError(tc.err)); e.Class != tc.want.Class || e.Code != tc.want.Code || e.Message != tc.want.Message {
				t.Errorf("got %+v, want %+v", e, tc.want)
			}
		})
	}
}
