package contract

import (
	"net/http"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

var driverPowerRows = []row{
	{"the driver sees a stopped server at once and starts it, and a start of a server that already runs succeeds", nothing, func(b *bench) {
		i, id := b.withServer()
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"os-stop": nil}), http.StatusAccepted)
		b.seen(i, cloud.ServerStopped)
		if err := i.StartServer(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.seen(i, cloud.ServerActive)
		if err := i.StartServer(b.Context()); err != nil {
			b.Errorf("starting a server that runs: %v", err)
		}
		b.release(i)
	}},
	{"the driver reports the start of a locked server as a Conflict error", nothing, func(b *bench) {
		i, id := b.withServer()
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"os-stop": nil}), http.StatusAccepted)
		b.seen(i, cloud.ServerStopped)
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"lock": nil}), http.StatusAccepted)
		err := i.StartServer(b.Context())
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"unlock": nil}), http.StatusAccepted)
		if !fault.Is(err, fault.Conflict) {
			b.Errorf("got %v", err)
		}
		b.release(i)
	}},
}

// withServer creates a Machine's server and waits until it is ACTIVE. It returns the Machine's cloud.Instance and the server's ID.
func (b *bench) withServer() (cloud.Instance, string) {
	b.Helper()
	d, _ := b.drover(b.credentials)
	i := b.instance(d, b.machine(b.fields(nil)))
	if err := bring(b.Context(), i); err != nil {
		b.Fatal(err)
	}
	return i, b.reaches(i, cloud.ServerActive).ID
}

// seen waits until a GET of the server, instead of the driver's last list, shows it in the state want.
func (b *bench) seen(i cloud.Instance, want cloud.ServerState) {
	b.Helper()
	b.until("the server is "+string(want), func() bool {
		f, err := i.ObserveNow(b.Context())
		return err == nil && f.Server != nil && f.Server.State == want
	})
}
