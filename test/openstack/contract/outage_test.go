package contract

import (
	"net/http"
	"slices"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

var outageRows = []row{
	{"while Neutron is down, Nova neither creates nor shows servers, and servers that are being built go to ERROR (F-58)", operator, networkOutage},
	{"the driver reports a Transient error, not a NoCapacity error, for a build that failed while Neutron was down (F-58)", operator, buildsWithoutNetwork},
}

// outageRounds is the maximum number of outages that a test causes until one of them affects a server that is being built.
const outageRounds = 3

// networkOutage stops Neutron while servers are being built. Which servers the outage affects depends on timing, so
// several rounds may be needed.
func networkOutage(b *bench) {
	failed := 0
	for round := 0; round < outageRounds && failed == 0; round++ {
		port := b.portID()
		ids := b.building(8)
		up := b.misfortune(b.T).networkDown(b.T)
		b.want(b.server(wish{fields: doc{"networks": []doc{{"port": port}}}}), http.StatusInternalServerError, "computeFault")
		b.want(b.user.get(compute, "/servers/detail"), http.StatusInternalServerError, "computeFault")
		b.want(b.user.get(compute, "/servers/"+ids[0]), http.StatusInternalServerError, "computeFault")
		b.want(b.user.get(compute, "/servers"), http.StatusOK)
		if a := b.user.get(network, "/ports/"+port); a.err == nil {
			b.Errorf("Neutron is down and answers %d", a.status)
		}
		b.built(ids)
		up()
		for _, id := range ids {
			a := b.want(b.user.get(compute, "/servers/"+id), http.StatusOK)
			if a.word("server.status") != "ERROR" {
				continue
			}
			failed++
			b.Logf("fault: %s", a.word("server.fault.message"))
			b.same("hostId", a.word("server.hostId"), "")
		}
	}
	if failed == 0 {
		b.Error("no server went to ERROR")
	}
}

// built waits until none of the servers is in BUILD. It reads the short list, which Nova serves even while Neutron is
// down.
func (b *bench) built(ids []string) {
	b.Helper()
	b.until("no server is being built", func() bool {
		for _, r := range b.want(b.user.get(compute, "/servers?status=BUILD"), http.StatusOK).rows("servers") {
			if slices.Contains(ids, r["id"].(string)) {
				return false
			}
		}
		return true
	})
}

// buildsWithoutNetwork creates Machines, stops Neutron while their servers are being built, and checks the errors that the
// driver reports.
func buildsWithoutNetwork(b *bench) {
	failed := 0
	for round := 0; round < outageRounds && failed == 0; round++ {
		d, stop := b.drover(b.credentials)
		var all []cloud.Instance
		var ids []string
		for range 4 {
			i := b.instance(d, b.machine(b.fields(nil)))
			all = append(all, i)
			if err := bring(b.Context(), i); err != nil {
				b.Fatal(err)
			}
			f, err := i.Observe(b.Context())
			if err != nil || f.Server == nil {
				b.Fatalf("the driver does not know the server that it has made: %v", err)
			}
			ids = append(ids, f.Server.ID)
		}
		up := b.misfortune(b.T).networkDown(b.T)
		b.built(ids)
		up()
		for _, i := range all {
			s := b.settled(i)
			if s.State == cloud.ServerError {
				failed++
				b.judged(s.Fault, fault.Transient, fault.CodeServerError)
			}
		}
		b.release(all...)
		b.has(0, 0, 0)
		stop()
	}
	if failed == 0 {
		b.Error("no server went to ERROR")
	}
}

// settled waits until the driver sees a server as ACTIVE or in ERROR, and returns the server.
func (b *bench) settled(i cloud.Instance) *cloud.Server {
	b.Helper()
	var s *cloud.Server
	b.until("the driver sees the server as ACTIVE or ERROR", func() bool {
		f, err := i.Observe(b.Context())
		if err != nil || f.Server == nil {
			return false
		}
		s = f.Server
		return s.State == cloud.ServerActive || s.State == cloud.ServerError
	})
	return s
}
