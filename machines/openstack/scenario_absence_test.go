package openstack

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestServerThatIsNotInTheProjectOfTheCredentials(t *testing.T) {
	t.Parallel()
	t.Run("a server does not count as gone, and nothing is released, when the Machine's status records another project (F-15)", func(t *testing.T) {
		b := newBench(t)
		b.sim.AddUser(sim.User{Name: "other", Password: "other-secret", Projects: []string{"other"}})
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		if recordOf(s).ProjectID == "" || recordOf(s).Region != sim.MetaKubeRegion {
			t.Fatalf("the server is recorded in project %q, region %q", recordOf(s).ProjectID, recordOf(s).Region)
		}
		b.records(m, s)
		own := b.options.Configured
		b.options.Configured.Username, b.options.Configured.Password, b.options.Configured.ProjectName = "other", "other-secret", "other"
		b.restart()
		i := b.synced(m)
		f := b.observe(i)
		here := b.connectionOf(m.UID).attached().Site().Project
		if f.Gone || f.Server != nil || !strings.Contains(f.Unknown, recordOf(s).ProjectID) || !strings.Contains(f.Unknown, here) {
			t.Errorf("it has %+v, want a sentence that names %s and %s", f, recordOf(s).ProjectID, here)
		}
		m.DeletionTimestamp = ptr.To(metav1.Now())
		i = b.instance(m)
		if err := i.DeleteServer(b.ctx); err != nil {
			t.Fatal(err)
		}
		if released, err := i.Release(b.ctx); released.Done || err != nil {
			t.Errorf("released: %+v, %v", released, err)
		}
		m.Spec.ProviderID = nil
		if f := b.observe(b.instance(m)); f.Unknown == "" {
			t.Errorf("without a provider ID it has %+v", f)
		}
		b.records(m, s)
		b.options.Configured = own
		b.restart()
		b.remove(b.synced(m))
		b.nothingLeft()
	})
	t.Run("a server does not count as gone when the Machine's status records no project (F-15)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		m.Spec.ProviderID = ptr.To("openstack:///11111111-0000-4000-8000-000000000001")
		if f := b.observe(b.synced(m)); f.Gone || !strings.Contains(f.Unknown, "no record") {
			t.Errorf("it has %+v", f)
		}
	})
}

func TestServerIsShownAgainAfterAWrong404(t *testing.T) {
	t.Parallel()
	t.Run("a server that counted as gone is shown again when a later complete list has it (F-19)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		b.records(m, s)
		i := b.instance(m)
		b.sim.LoseCell("cell1")
		b.sim.Inject(sim.Fault{Call: "GET /servers/{id}", Status: http.StatusNotFound, Body: `{"itemNotFound":{"code":404,"message":"Instance could not be found."}}`})
		b.eventually("the server counts as gone", func() bool { f, err := i.Observe(b.ctx); return err == nil && f.Gone })
		b.sim.RestoreCells()
		b.sim.ClearFaults()
		b.pass(state.FullPeriod)
		b.eventually("the server is back", func() bool {
			got := b.observe(i).Server
			return got != nil && got.ID == s.ID || b.clock.Since(s.Created) > 3*state.FullPeriod
		})
		if f := b.observe(i); f.Server == nil || f.Gone {
			t.Errorf("it has %+v", f)
		}
	})
}
