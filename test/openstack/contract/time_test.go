package contract

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

var timeRows = []row{
	{"the times of servers, ports and images are on the clock of the header Date", nothing, func(b *bench) {
		server := b.want(b.user.get(compute, "/servers/"+b.boot(wish{})), http.StatusOK)
		port := b.want(b.user.get(network, "/ports/"+b.portID()), http.StatusOK)
		made := b.want(b.user.get(image, "/images/"+b.newImage(b.user, b.name(), "private")), http.StatusOK)
		now, err := http.ParseTime(b.want(b.user.get(compute, "/servers"), http.StatusOK).header.Get("Date"))
		if err != nil {
			b.Fatal(err)
		}
		for what, text := range map[string]string{"server": server.word("server.created"), "port": port.word("port.created_at"), "image": made.word("created_at")} {
			at, err := time.Parse(time.RFC3339, text)
			if age := now.Sub(at); err != nil || age < -2*time.Second || age > b.patience {
				b.Errorf("the %s was created at %s (%v), and Date is %s", what, text, err, now)
			}
		}
	}},
	{"lists with changes-since show a new server's zone first, then its host, then its addresses (F-57)", nothing, zoneHostAddresses},
	{"a server shows the requested zone before it shows a host (F-57)", nothing, func(b *bench) {
		id := b.want(b.server(wish{fields: doc{"availability_zone": b.zone}}), http.StatusAccepted).word("server.id")
		a := b.want(b.user.get(compute, "/servers/"+id), http.StatusOK)
		b.same("zone", a.word("server.OS-EXT-AZ:availability_zone"), b.zone)
		b.status(id, "ACTIVE")
	}},
	{"an ACTIVE server shows at once a floating IP that its port had before the server was created (F-57)", nothing, func(b *bench) {
		port := b.portID()
		address := b.want(b.floatingIP(doc{"port_id": port}), http.StatusCreated).word("floatingip.floating_ip_address")
		id := b.boot(wish{fields: doc{"networks": []doc{{"port": port}}}})
		if a := b.user.get(compute, "/servers/"+id); !strings.Contains(a.text, `"`+address+`"`) {
			b.Errorf("the ACTIVE server does not show %s: %v", address, a.at("server.addresses"))
		}
	}},
	{"a port is bound to its server when the server is ACTIVE, and unbound when the server is gone (F-57)", nothing, func(b *bench) {
		port := b.portID()
		id := b.boot(wish{fields: doc{"networks": []doc{{"port": port}}}})
		b.same("device_id", b.want(b.user.get(network, "/ports/"+port), http.StatusOK).word("port.device_id"), id)
		b.want(b.user.delete(compute, "/servers/"+id), http.StatusNoContent)
		b.gone("/servers/" + id)
		b.same("device_id", b.want(b.user.get(network, "/ports/"+port), http.StatusOK).word("port.device_id"), "")
	}},
	{"the cloud limits concurrent creates of ports: eight at a time are at most three times as fast as one at a time (F-56)", aQuietCloud, func(b *bench) {
		body := doc{"port": doc{"network_id": b.networkID(b.network), "name": b.name()}}
		b.limited(func() answer { return b.user.post(network, "/ports", body) }, http.StatusCreated, network, "/ports/", "port.id")
	}},
	{"the cloud limits concurrent creates of floating IPs: eight at a time are at most three times as fast as one at a time (F-56)", aQuietCloud, func(b *bench) {
		body := doc{"floatingip": doc{"floating_network_id": b.networkID(b.pool)}}
		b.limited(func() answer { return b.user.post(network, "/floatingips", body) }, http.StatusCreated, network, "/floatingips/", "floatingip.id")
	}},
	{"the cloud limits concurrent creates of servers: eight at a time are at most three times as fast as one at a time (F-56)", aQuietCloud, func(b *bench) {
		body := doc{"server": doc{
			"name": b.name(), "flavorRef": b.flavorID(b.flavor), "imageRef": b.imageID(), "networks": []doc{{"uuid": b.networkID(b.network)}},
		}}
		b.limited(func() answer { return b.user.post(compute, "/servers", body) }, http.StatusAccepted, compute, "/servers/", "server.id")
	}},
}

// together makes n calls and returns their answers; atATime is how many of them are made concurrently.
func together(n, atATime int, call func() answer) []answer {
	answers := make([]answer, n)
	places := make(chan struct{}, atATime)
	var calls sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			answers[i] = call()
		})
	}
	calls.Wait()
	return answers
}

// limited checks that the cloud makes concurrent creates wait: sixteen creates, eight at the same time, must take at least a
// third of the time of sixteen creates one after the other. The resources are deleted when the test ends. idAt is the path of
// the ID in the response.
func (b *bench) limited(create func() answer, status int, service, path, idAt string) {
	b.Helper()
	timed := func(n int) time.Duration {
		begin := time.Now()
		answers := together(n, 8, create)
		took := time.Since(begin)
		for _, a := range answers {
			if id := a.word(idAt); id != "" {
				b.Cleanup(func() { b.user.delete(service, path+id); b.gone(path + id) })
			}
		}
		for _, a := range answers {
			b.want(a, status)
		}
		return took
	}
	alone := min(timed(1), timed(1), timed(1), timed(1))
	sixteen := timed(16)
	b.Logf("one alone took %s, sixteen took %s", alone, sixteen)
	if sixteen < 16*alone/3 {
		b.Errorf("sixteen took %s, want at least a third of sixteen times %s", sixteen, alone)
	}
}

// building requests n servers concurrently, each on its own port, and returns their IDs.
func (b *bench) building(n int) []string {
	b.Helper()
	ports := make(chan string, n)
	for range n {
		ports <- b.portID()
	}
	flavor, image, name := b.flavorID(b.flavor), b.imageID(), b.name()
	answers := together(n, n, func() answer {
		return b.user.post(compute, "/servers", doc{"server": doc{
			"name": name, "flavorRef": flavor, "imageRef": image, "networks": []doc{{"port": <-ports}},
		}})
	})
	var ids []string
	for _, a := range answers {
		if id := a.word("server.id"); id != "" {
			ids = append(ids, id)
			b.Cleanup(func() { b.remove(id) })
		}
	}
	for _, a := range answers {
		b.want(a, http.StatusAccepted)
	}
	return ids
}

// zoneHostAddresses reads lists while servers are being built. No list may show a host without its zone, or addresses without the
// host. At least one list must show a zone without a host. That state lasts only for a moment, so several rounds may be needed to
// see it.
func zoneHostAddresses(b *bench) {
	const rounds = 5
	zoneAlone := 0
	for round := 0; round < rounds && zoneAlone == 0; round++ {
		since := b.now().Add(-time.Second).Format(time.RFC3339)
		waiting := map[string]bool{}
		for _, id := range b.building(8) {
			waiting[id] = true
		}
		b.until("all servers are ACTIVE", func() bool {
			for _, r := range b.want(b.user.get(compute, "/servers/detail?changes-since="+url.QueryEscape(since)), http.StatusOK).rows("servers") {
				id := r["id"].(string)
				if !waiting[id] {
					continue
				}
				zone, host, addresses := r["OS-EXT-AZ:availability_zone"] != "", r["hostId"] != "", len(r["addresses"].(doc)) > 0
				if host && !zone || addresses && !host || r["status"] == "ACTIVE" && !addresses {
					b.Errorf("server %s is %v with zone %v, host %v, addresses %v", id, r["status"], zone, host, addresses)
				}
				if zone && !host {
					zoneAlone++
				}
				if r["status"] == "ACTIVE" {
					delete(waiting, id)
				}
			}
			return len(waiting) == 0
		})
	}
	if zoneAlone == 0 {
		b.Error("no list showed a server with its zone and without its host")
	}
}

// now returns the cloud's time.
func (b *bench) now() time.Time {
	b.Helper()
	now, err := http.ParseTime(b.user.get(compute, "/servers/detail?limit=1").header.Get("Date"))
	if err != nil {
		b.Fatal(err)
	}
	return now
}
