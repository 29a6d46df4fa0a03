package contract

import "net/http"

var lifeRows = []row{
	{"a new server is shown as soon as Nova has accepted it, and at first has neither a host nor addresses", nothing, func(b *bench) {
		id := b.want(b.server(wish{fields: doc{"metadata": doc{"machine-uid": "m"}}}), http.StatusAccepted).word("server.id")
		a := b.want(b.user.get(compute, "/servers/"+id), http.StatusOK)
		if a.word("server.status") == "BUILD" && a.at("server.OS-EXT-STS:task_state") != nil && a.word("server.hostId") == "" {
			b.same("addresses", a.at("server.addresses"), "map[]")
		}
		b.same("metadata", a.at("server.metadata.machine-uid"), "m")
		b.status(id, "ACTIVE")
	}},
	{"an action on a server right after its creation is refused with 404 or 409", nothing, func(b *bench) {
		// A server may become ACTIVE before the action arrives at Nova. Then another server is tried.
		b.until("an action is refused", func() bool {
			id := b.want(b.server(wish{}), http.StatusAccepted).word("server.id")
			a := b.oneOf(b.user.post(compute, "/servers/"+id+"/action", doc{"os-stop": nil}),
				http.StatusNotFound, http.StatusConflict, http.StatusAccepted)
			if a.status == http.StatusAccepted {
				b.status(id, "SHUTOFF")
				return false
			}
			b.status(id, "ACTIVE")
			return true
		})
	}},
	{"a list and a GET show a stopped server with vm_state stopped, power_state 4 and task_state null", nothing, func(b *bench) {
		id := b.stopped()
		for _, a := range []answer{b.rowOf(b.want(b.user.get(compute, "/servers/detail", at("2.3")), http.StatusOK), id), {body: b.user.get(compute, "/servers/"+id, at("2.3")).at("server")}} {
			b.same("task_state", a.at("OS-EXT-STS:task_state"), nil)
			b.same("power_state", a.at("OS-EXT-STS:power_state"), 4)
			b.same("vm_state", a.at("OS-EXT-STS:vm_state"), "stopped")
		}
	}},
	{"starting a server advances its update time, because lists with changes-since depend on this time", nothing, func(b *bench) {
		id := b.stopped()
		updated := b.user.get(compute, "/servers/"+id).word("server.updated")
		b.nextSecond(updated)
		b.want(b.start(id), http.StatusAccepted)
		b.status(id, "ACTIVE")
		if now := b.user.get(compute, "/servers/"+id).word("server.updated"); now <= updated {
			b.Errorf("updated stays %s", now)
		}
	}},
	{"starting a server returns 202, and the server becomes ACTIVE with its power on", nothing, func(b *bench) {
		id := b.stopped()
		b.want(b.start(id), http.StatusAccepted)
		a := b.status(id, "ACTIVE")
		b.same("power_state", a.at("server.OS-EXT-STS:power_state"), 1)
	}},
	{"starting a server that runs is refused with 409", nothing, func(b *bench) {
		b.want(b.start(b.boot(wish{})), http.StatusConflict, `"conflictingRequest"`, "while it is in vm_state active")
	}},
	{"starting a locked server is refused with 409", nothing, func(b *bench) {
		id := b.stopped()
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"lock": nil}), http.StatusAccepted)
		a := b.start(id)
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"unlock": nil}), http.StatusAccepted)
		b.want(a, http.StatusConflict, "Instance "+id+" is locked")
	}},
	{"deleting a server returns 204, and deleting it again returns 404 once it is gone", nothing, func(b *bench) {
		id := b.boot(wish{})
		b.want(b.user.delete(compute, "/servers/"+id), http.StatusNoContent)
		b.oneOf(b.user.delete(compute, "/servers/"+id), http.StatusNoContent, http.StatusNotFound)
		b.gone("/servers/" + id)
		b.want(b.user.get(compute, "/servers/"+id), http.StatusNotFound, `"itemNotFound"`, "Instance "+id+" could not be found.")
		b.want(b.user.delete(compute, "/servers/"+id), http.StatusNotFound, `"itemNotFound"`)
	}},
	{"a server can be deleted while it is being built", nothing, func(b *bench) {
		port := b.portID()
		id := b.want(b.server(wish{fields: doc{"networks": []doc{{"port": port}}}}), http.StatusAccepted).word("server.id")
		b.want(b.user.delete(compute, "/servers/"+id), http.StatusNoContent)
		b.gone("/servers/" + id)
		b.unbound(port)
	}},
	{"a port that existed before its server stays without a device when the server is deleted, and can be used again", nothing, func(b *bench) {
		port := b.portID()
		b.remove(b.boot(wish{fields: doc{"networks": []doc{{"port": port}}}}))
		b.unbound(port)
		b.boot(wish{fields: doc{"networks": []doc{{"port": port}}}})
	}},
	{"a server whose port is deleted stays ACTIVE and loses the port's address", nothing, func(b *bench) {
		port := b.portID()
		id := b.boot(wish{fields: doc{"networks": []doc{{"port": port}}}})
		b.want(b.user.delete(network, "/ports/"+port), http.StatusNoContent)
		b.until("the address is gone", func() bool {
			return len(b.user.get(compute, "/servers/"+id).rows("server.addresses."+b.network)) == 0
		})
		b.same("status", b.user.get(compute, "/servers/"+id).word("server.status"), "ACTIVE")
	}},
	{"deleting a locked server is refused with 409", nothing, func(b *bench) {
		id := b.boot(wish{})
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"lock": nil}), http.StatusAccepted)
		a := b.user.delete(compute, "/servers/"+id)
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"unlock": nil}), http.StatusAccepted)
		b.want(a, http.StatusConflict, "Instance "+id+" is locked")
	}},
	{"the action forceDelete deletes a server", nothing, func(b *bench) {
		id := b.boot(wish{})
		b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"forceDelete": nil}), http.StatusAccepted)
		b.gone("/servers/" + id)
	}},
	{"the console output of an ACTIVE server is text, and that of a new server may be refused with 404 or 409", nothing, func(b *bench) {
		path := func(id string) string { return "/servers/" + id + "/action" }
		id := b.want(b.server(wish{}), http.StatusAccepted).word("server.id")
		b.oneOf(b.user.post(compute, path(id), doc{"os-getConsoleOutput": doc{"length": 5}}), http.StatusOK, http.StatusNotFound, http.StatusConflict)
		b.status(id, "ACTIVE")
		a := b.want(b.user.post(compute, path(id), doc{"os-getConsoleOutput": doc{"length": 5}}), http.StatusOK)
		if _, text := a.at("output").(string); !text {
			b.Errorf("answered %s", a.text)
		}
	}},
	{"adding metadata to a server advances the server's update time", nothing, func(b *bench) {
		id := b.boot(wish{fields: doc{"metadata": doc{"one": "1"}}})
		before := b.user.get(compute, "/servers/"+id)
		b.nextSecond(before.word("server.updated"))
		a := b.want(b.user.post(compute, "/servers/"+id+"/metadata", doc{"metadata": doc{"two": "2"}}), http.StatusOK)
		b.same("metadata", a.at("metadata"), "map[one:1 two:2]")
		after := b.user.get(compute, "/servers/"+id)
		if after.word("server.updated") <= before.word("server.updated") {
			b.Errorf("updated stays %s", after.word("server.updated"))
		}
	}},
	{"a server whose flavor fits on no host is accepted and goes to ERROR with the scheduler's message", nothing, noValidHost},
	{"a server is accepted and goes to ERROR with the scheduler's message when every host is disabled", operator, func(b *bench) {
		b.misfortune(b.T).disable(b.T, "")
		id := b.want(b.server(wish{}), http.StatusAccepted).word("server.id")
		a := b.status(id, "ERROR")
		b.same("fault", a.word("server.fault.message"), "No valid host was found. ")
	}},
	{"a server is accepted and goes to ERROR when its anti-affinity group leaves no host for it", operator, func(b *bench) {
		// When the hosts of all other zones are disabled, only one host is left, and the first server is on it.
		for _, z := range b.user.get(compute, "/os-availability-zone").rows("availabilityZoneInfo") {
			if z["zoneName"] != b.zone {
				b.misfortune(b.T).disable(b.T, z["zoneName"].(string))
			}
		}
		group := b.serverGroup("anti-affinity")
		b.boot(wish{hints: doc{"group": group}})
		id := b.want(b.server(wish{hints: doc{"group": group}}), http.StatusAccepted).word("server.id")
		a := b.status(id, "ERROR")
		b.same("fault", a.word("server.fault.message"), "No valid host was found. There are not enough hosts available.")
	}},
	{"a server that the cloud put into ERROR can be deleted", operator, func(b *bench) {
		id := b.boot(wish{})
		b.misfortune(b.T).fail(b.T, id)
		b.status(id, "ERROR")
		b.remove(id)
	}},
}

// stopped returns the ID of a server that was shut down.
func (b *bench) stopped() string {
	b.Helper()
	id := b.boot(wish{})
	b.want(b.user.post(compute, "/servers/"+id+"/action", doc{"os-stop": nil}), http.StatusAccepted)
	b.status(id, "SHUTOFF")
	b.until("no task is left", func() bool {
		return b.user.get(compute, "/servers/"+id).at("server.OS-EXT-STS:task_state") == nil
	})
	return id
}

// start requests that a server be started.
func (b *bench) start(id string) answer {
	return b.user.post(compute, "/servers/"+id+"/action", doc{"os-start": nil})
}

// unbound waits until a port is bound to no server.
func (b *bench) unbound(port string) {
	b.Helper()
	b.until("the port is free", func() bool { return b.user.get(network, "/ports/"+port).word("port.device_id") == "" })
	a := b.want(b.user.get(network, "/ports/"+port), http.StatusOK)
	b.same("device_owner", a.word("port.device_owner"), "")
	b.same("status", a.word("port.status"), "DOWN")
}

func noValidHost(b *bench) {
	port := b.portID()
	id := b.want(b.server(wish{fields: doc{"flavorRef": b.flavorID(b.impossible), "networks": []doc{{"port": port}}}}), http.StatusAccepted).word("server.id")
	a := b.status(id, "ERROR")
	b.same("fault", a.word("server.fault.message"), "No valid host was found. ")
	b.same("code", a.at("server.fault.code"), 500)
	b.same("details", a.at("server.fault.details"), nil)
	b.same("vm_state", a.word("server.OS-EXT-STS:vm_state"), "error")
	b.same("task_state", a.at("server.OS-EXT-STS:task_state"), nil)
	b.same("hostId", a.word("server.hostId"), "")
	b.same("addresses", a.at("server.addresses"), "map[]")
	// A list may show no fault, because it shows only the faults of servers that are stored in the database of Nova's API.
	if text := b.rowOf(b.user.get(compute, "/servers/detail"), id).word("fault.message"); text != "" {
		b.same("fault in the list", text, a.word("server.fault.message"))
	}
	b.unbound(port)
	b.remove(id)
	b.want(b.user.get(network, "/ports/"+port), http.StatusOK)
}
