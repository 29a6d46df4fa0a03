package contract

import (
	"net/http"
	"sync"
	"time"
)

// latePosts is how many ports the test replaces.
const latePosts = 10

var samePortRows = []row{
	{"when two servers are requested on one port at the same time, one goes to ERROR, and neither keeps the port (F-21)", nothing, func(b *bench) {
		b.neitherHasThePort(0)
	}},
	{"when two servers are requested on one port a moment apart, one goes to ERROR, and neither keeps the port (F-21)", nothing, func(b *bench) {
		b.neitherHasThePort(5 * b.pace)
	}},
	{"a second server on the port of an ACTIVE server is refused with 409, and the first keeps the port (F-21)", nothing, func(b *bench) {
		port := b.portID()
		first := b.boot(wish{fields: on(port)})
		b.want(b.server(wish{fields: on(port)}), http.StatusConflict, "Port "+port+" is still in use.")
		b.same("device_id", b.device(port), first)
	}},
	{"a request for a server on a port that was deleted and replaced fails, and does not affect the new port (F-21)", nothing, lateOrders},
}

// on returns the part of a create request that puts the server on the given port.
func on(port string) doc { return doc{"networks": []doc{{"port": port}}} }

// device returns the ID of the server that the port is bound to. It is empty when the port is bound to no server.
func (b *bench) device(port string) string {
	b.Helper()
	return b.want(b.user.get(network, "/ports/"+port), http.StatusOK).word("port.device_id")
}

// outcome waits until a server is ACTIVE or in ERROR, and returns that status.
func (b *bench) outcome(id string) string {
	b.Helper()
	status := ""
	b.until("server "+id+" is ACTIVE or in ERROR", func() bool {
		status = b.want(b.user.get(compute, "/servers/"+id), http.StatusOK).word("server.status")
		return status == "ACTIVE" || status == "ERROR"
	})
	return status
}

// neitherHasThePort requests two servers on one port, and checks that the port is bound to neither at the end. When the
// cloud is so fast that it refuses the second request, the function tries again with another port.
func (b *bench) neitherHasThePort(apart time.Duration) {
	for range 20 {
		port := b.portID()
		orders := b.twoServers(port, apart)
		if orders[0].status == http.StatusConflict || orders[1].status == http.StatusConflict {
			continue
		}
		states := map[string]int{}
		for _, a := range orders {
			states[b.outcome(b.want(a, http.StatusAccepted).word("server.id"))]++
		}
		if states["ACTIVE"] != 1 || states["ERROR"] != 1 {
			b.Errorf("the servers ended as %v, want one ACTIVE and one in ERROR", states)
		}
		b.until("the port is bound to no server", func() bool { return b.device(port) == "" })
		b.same("status of the port", b.user.get(network, "/ports/"+port).word("port.status"), "DOWN")
		return
	}
	b.Fatal("the second order was never accepted")
}

// twoServers requests two servers on one port. The second request is sent later than the first, by the duration apart.
func (b *bench) twoServers(port string, apart time.Duration) [2]answer {
	var orders [2]answer
	fields := doc{"flavorRef": b.flavorID(b.flavor), "imageRef": b.imageID(), "networks": []doc{{"port": port}}}
	var wg sync.WaitGroup
	for n := range orders {
		body := doc{"name": b.name()}
		for k, v := range fields {
			body[k] = v
		}
		wg.Go(func() {
			<-time.After(time.Duration(n) * apart)
			orders[n] = b.user.post(compute, "/servers", doc{"server": body})
		})
	}
	wg.Wait()
	for _, a := range orders {
		if id := a.word("server.id"); id != "" {
			b.Cleanup(func() { b.remove(id) })
		}
	}
	return orders
}

// replaced is the new port with which the test has replaced an old one, the server on the new port, and the answer to the late
// request for a server on the old port.
type replaced struct {
	port, server string
	late         answer
}

// lateOrders replaces ports as drover does: it sees that a port is unbound, deletes it, creates it again, and creates a
// server on the new port. The create request for a server on the old port arrives immediately, a moment later, or while the
// old port is being deleted.
func lateOrders(b *bench) {
	flavor, image := b.flavorID(b.flavor), b.imageID()
	var all []replaced
	for n := range latePosts {
		old, name, arrived := b.portID(), b.name(), make(chan answer, 1)
		order := func() {
			arrived <- b.user.post(compute, "/servers", doc{"server": doc{
				"name": name, "flavorRef": flavor, "imageRef": image, "networks": []doc{{"port": old}},
			}})
		}
		b.same("device_id", b.device(old), "")
		during := n%2 == 1
		if during {
			go order()
			<-time.After(time.Duration(n) * b.pace / 10)
		}
		b.want(b.user.delete(network, "/ports/"+old), http.StatusNoContent)
		r := replaced{port: b.portID()}
		r.server = b.want(b.server(wish{fields: on(r.port)}), http.StatusAccepted).word("server.id")
		if !during {
			<-time.After(time.Duration(n) * b.pace / 2)
			go order()
		}
		r.late = <-arrived
		if id := r.late.word("server.id"); id != "" {
			b.Cleanup(func() { b.remove(id) })
		}
		all = append(all, r)
	}
	refused, failed := 0, 0
	for _, r := range all {
		if b.oneOf(r.late, http.StatusBadRequest, http.StatusAccepted).status == http.StatusBadRequest {
			refused++
		} else if status := b.outcome(r.late.word("server.id")); status == "ERROR" {
			failed++
		}
		b.status(r.server, "ACTIVE")
		b.same("device_id of the new port", b.device(r.port), r.server)
		b.until("the new port is ACTIVE", func() bool { return b.user.get(network, "/ports/"+r.port).word("port.status") == "ACTIVE" })
	}
	b.Logf("of %d late orders %d were refused with 400 and %d ended in ERROR", latePosts, refused, failed)
	b.same("late orders that were refused or failed", refused+failed, latePosts)
}
