package contract

import (
	"net/http"
	"net/url"
)

var troubleRows = []row{
	{"a port exists although the response to its creation is lost", operator, func(b *bench) {
		mark := b.name()
		b.misfortune(b.T).answer(b.T, failure{service: network, method: http.MethodPost, path: "/ports", times: 1})
		body := doc{"port": doc{"network_id": b.networkID(b.network), "description": mark}}
		if a := newClient(b.T, b.faulty).post(network, "/ports", body); a.err == nil {
			b.Fatalf("answered %d", a.status)
		}
		made := b.want(b.user.get(network, "/ports?description="+url.QueryEscape(mark)), http.StatusOK).rows("ports")
		b.same("made", len(made), 1)
		b.discard(network, "/ports/"+made[0]["id"].(string))
	}},
	{"a server exists although the response to its creation is lost", operator, func(b *bench) {
		name := b.name()
		b.misfortune(b.T).answer(b.T, failure{service: compute, method: http.MethodPost, path: "/servers", times: 1})
		body := doc{"server": doc{
			"name": name, "flavorRef": b.flavorID(b.flavor), "imageRef": b.imageID(), "networks": []doc{{"port": b.portID()}},
		}}
		if a := newClient(b.T, b.faulty).post(compute, "/servers", body); a.err == nil {
			b.Fatalf("answered %d", a.status)
		}
		made := b.want(b.user.get(compute, "/servers?name="+name), http.StatusOK).rows("servers")
		b.same("made", len(made), 1)
		id := made[0]["id"].(string)
		b.Cleanup(func() { b.remove(id) })
		b.status(id, "ACTIVE")
	}},
	{"a call beyond a rate limit is refused with 429 and Retry-After, and succeeds once the limit no longer applies", operator, func(b *bench) {
		b.misfortune(b.T).answer(b.T, failure{service: compute, method: http.MethodGet, path: "/servers", times: 2, status: 429, retryAfter: 2})
		cl := newClient(b.T, b.faulty)
		for range 2 {
			b.same("Retry-After", b.want(cl.get(compute, "/servers"), http.StatusTooManyRequests).header.Get("Retry-After"), "2")
		}
		b.want(cl.get(compute, "/servers"), http.StatusOK)
	}},
}
