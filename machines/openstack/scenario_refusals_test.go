package openstack

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestResourceThatIsReplacedUnderItsName(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]fields{
		"boots from the flavor's disk": seedFields(),
		"boots from a volume":          seedFields().with("rootDiskSizeGB", 20),
	} {
		t.Run("after an image was replaced, the second create of a server that "+name+" uses the new one (F-130)", func(t *testing.T) {
			b := newBench(t)
			old := b.sim.AddImage(sim.Image{Name: "nightly", MinDisk: 8})
			b.active(newMachine(t, "a", spec.with("image", "nightly")))
			b.sim.RemoveImage(old)
			b.sim.AddImage(sim.Image{Name: "nightly", MinDisk: 8})
			i := b.synced(newMachine(t, "b", spec))
			asked := b.calls("GET /images")
			if _, err := b.make(i); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeImageNotFound {
				t.Fatalf("got %v, want ImageNotFound", err)
			}
			b.eventually("the new image is used", func() bool {
				_, err := b.make(i)
				return err == nil
			})
			if again := b.calls("GET /images") - asked; again != 1 {
				t.Errorf("images were listed %d times, want once", again)
			}
		})
	}
	t.Run("networks are listed again after Neutron refused a port, because the network does not exist (F-130)", func(t *testing.T) {
		b := newBench(t)
		b.active(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{
			Call: "POST /ports", Times: 1, Status: http.StatusNotFound,
			Body: `{"NeutronError":{"type":"NetworkNotFound","message":"Network x could not be found.","detail":""}}`,
		})
		i := b.synced(newMachine(t, "b", seedFields()))
		asked := b.calls("GET /networks")
		if err := i.Prepare(b.ctx); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeNetworkNotFound {
			t.Fatalf("got %v, want NetworkNotFound", err)
		}
		if _, err := b.make(i); err != nil {
			t.Fatal(err)
		}
		if again := b.calls("GET /networks") - asked; again != 1 {
			t.Errorf("networks were listed %d times, want once", again)
		}
	})
}

func TestAddressThatAPolicyHides(t *testing.T) {
	t.Parallel()
	t.Run("a 404 that hides a floating IP does not release the Machine, and the floating IP is deleted later (F-132)", func(t *testing.T) {
		b := newBench(t)
		i, s := b.active(newMachine(t, "a", fullFields()))
		b.sim.Inject(sim.Fault{
			Call: "DELETE /floatingips/{id}", Times: 1, Status: http.StatusNotFound,
			Body: `{"NeutronError":{"type":"HTTPNotFound","message":"The resource could not be found.","detail":""}}`,
		})
		b.sim.DeleteServer(s.ID)
		b.eventually("the server is gone", func() bool { return b.observe(i).Gone })
		if released, err := i.Release(b.ctx); released.Done || !fault.Is(err, fault.Auth) {
			t.Fatalf("got %+v, %v, want an error about the rights", released, err)
		}
		b.eventually("all is released", func() bool {
			released, err := i.Release(b.ctx)
			return err == nil && released.Done
		})
		b.nothingLeft()
	})
}

func TestRefusalsOfAVendorsCloud(t *testing.T) {
	t.Parallel()
	t.Run("a vendor's refusal for lack of quota shows its text, and leaves no create in doubt (F-131)", func(t *testing.T) {
		b := newBench(t)
		b.sim.Inject(sim.Fault{
			Call: "POST /servers", Times: 1, Status: http.StatusBadRequest,
			Body: `{"error":{"code":"Ecs.0019","message":"The number of ECSs is beyond the quota limit."}}`,
		})
		i := b.synced(newMachine(t, "a", seedFields()))
		_, err := b.make(i)
		if !fault.Is(err, fault.Quota) || !strings.Contains(err.Error(), "beyond the quota limit. (Ecs.0019)") {
			t.Fatalf("got %v", err)
		}
		if p, err := i.project(); err != nil || slices.Contains(p.ResourcesOf(i.machine.UID).InDoubt, i.tag(cloud.ResourceServer, 0)) {
			t.Errorf("the create is in doubt, %v", err)
		}
		if n := b.calls("POST /ports"); n != 1 {
			t.Errorf("%d ports were made, want one", n)
		}
	})
}
