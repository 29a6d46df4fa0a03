package contract

import (
	"fmt"
	"net/http"
	"strings"
)

// used returns a number from Nova's answer about the project's limits and their use. field names the number, such as
// totalCoresUsed.
func (b *bench) used(field string) int {
	b.Helper()
	n, _ := b.want(b.user.get(compute, "/limits"), http.StatusOK).at("limits.absolute." + field).(float64)
	return int(n)
}

// unifiedRows hold for a Nova whose limits are in Keystone. Its limits are set there, so the suite only lowers them in the simulation.
var unifiedRows = []row{
	{"a server beyond a unified limit is refused with 403, and the error names each resource, its limit, use and the difference", operator, func(b *bench) {
		flavor := b.want(b.user.get(compute, "/flavors/"+b.flavorID(b.flavor)), http.StatusOK)
		for what, c := range map[string]struct{ used, resource, size string }{
			"instances": {"totalInstancesUsed", "servers", ""}, "cores": {"totalCoresUsed", "class:VCPU", "vcpus"}, "ram": {"totalRAMUsed", "class:MEMORY_MB", "ram"},
		} {
			have, more := b.used(c.used), 1
			if n, sized := flavor.at("flavor." + c.size).(float64); sized {
				more = int(n)
			}
			b.misfortune(b.T).limit(b.T, what, have)
			a := b.want(b.server(wish{}), http.StatusForbidden, "Project "+b.user.project+" is over a limit for [",
				fmt.Sprintf("Resource %s is over limit of %d due to current usage %d and delta %d", c.resource, have, have, more))
			b.same("code", a.at("forbidden.code"), 403)
			b.misfortune(b.T).limit(b.T, what, -1)
		}
	}},
}

var quotaRows = []row{
	{"a server beyond the quota of instances, cores or RAM is refused with 403, and the error says how much is used", operator, func(b *bench) {
		for what, field := range map[string]string{"instances": "totalInstancesUsed", "cores": "totalCoresUsed", "ram": "totalRAMUsed"} {
			have := b.used(field)
			m := b.misfortune(b.T)
			m.limit(b.T, what, have)
			a := b.want(b.server(wish{}), http.StatusForbidden, "Quota exceeded for "+what+": Requested ", fmt.Sprintf("but already used %d of %d %s", have, have, what))
			b.same("code", a.at("forbidden.code"), 403)
			b.same("limit", b.used(map[string]string{"instances": "maxTotalInstances", "cores": "maxTotalCores", "ram": "maxTotalRAMSize"}[what]), have)
			m.limit(b.T, what, -1)
		}
	}},
	{"a server in ERROR counts against the quota until it is deleted", operator, func(b *bench) {
		id := b.want(b.server(wish{fields: doc{"flavorRef": b.flavorID(b.impossible)}}), http.StatusAccepted).word("server.id")
		b.status(id, "ERROR")
		have := b.used("totalInstancesUsed")
		b.misfortune(b.T).limit(b.T, "instances", have)
		b.want(b.server(wish{}), http.StatusForbidden, "Quota exceeded for instances")
		b.remove(id)
		b.same("used", b.used("totalInstancesUsed"), have-1)
		b.boot(wish{})
	}},
	{"a port beyond the quota is refused by Neutron with 409, and by Nova with 403 when a server needs a new port", operator, func(b *bench) {
		used, _ := b.user.get(network, "/quotas/"+b.user.project+"/details.json").at("quota.port.used").(float64)
		b.misfortune(b.T).limit(b.T, "port", int(used))
		a := b.want(b.port(nil), http.StatusConflict, "Quota exceeded for resources: ['port'].")
		b.same("type", a.word("NeutronError.type"), "OverQuota")
		both := doc{"network_id": b.networkID(b.network)}
		b.want(b.user.post(network, "/ports", doc{"ports": []doc{both, both}}), http.StatusConflict, "OverQuota")
		b.want(b.server(wish{fields: doc{"networks": []doc{{"uuid": b.networkID(b.network)}}}}), http.StatusForbidden, "Maximum number of ports exceeded")
	}},
	{"a floating IP beyond the quota is refused with 409", operator, func(b *bench) {
		b.misfortune(b.T).limit(b.T, "floatingip", 0)
		a := b.want(b.floatingIP(nil), http.StatusConflict, "Quota exceeded for resources: ['floatingip'].")
		b.same("type", a.word("NeutronError.type"), "OverQuota")
	}},
	{"a security group beyond the quota is refused with 409", operator, func(b *bench) {
		b.misfortune(b.T).limit(b.T, "security_group", 1)
		b.want(b.securityGroup(b.name()), http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['security_group'].")
	}},
	{"a server beyond the quota of members of its server group is refused with 403", operator, func(b *bench) {
		group := b.serverGroup("soft-anti-affinity")
		b.misfortune(b.T).limit(b.T, "server_group_members", 1)
		b.boot(wish{hints: doc{"group": group}})
		b.want(b.server(wish{hints: doc{"group": group}}), http.StatusForbidden, "Quota exceeded, too many servers in group")
	}},
}

// fromVolume returns the request for a server whose boot disk is a volume. device overrides fields of the volume.
func (b *bench) fromVolume(device doc) wish {
	b.Helper()
	whole := doc{
		"boot_index": 0, "uuid": b.imageID(), "source_type": "image", "destination_type": "volume", "volume_size": 1, "delete_on_termination": true,
	}
	for k, v := range device {
		whole[k] = v
	}
	return wish{version: "2.67", fields: doc{"imageRef": "", "block_device_mapping_v2": []doc{whole}}}
}

var volumeRows = []row{
	{"a server boots from a volume, shows the volume, and is deleted together with the volume", volumes, func(b *bench) {
		id := b.boot(b.fromVolume(doc{"volume_type": b.volumeType}))
		a := b.want(b.user.get(compute, "/servers/"+id, at("2.67")), http.StatusOK)
		disk := a.word("server.os-extended-volumes:volumes_attached.0.id")
		b.same("delete_on_termination", a.at("server.os-extended-volumes:volumes_attached.0.delete_on_termination"), true)
		b.same("image", a.at("server.image"), "")
		for version, told := range map[string]any{"": nil, "2.3": true} {
			r := b.rowOf(b.want(b.user.get(compute, "/servers/detail", at(version)), http.StatusOK), id)
			b.same("volume in the list", r.word("os-extended-volumes:volumes_attached.0.id"), disk)
			b.same("delete_on_termination at "+version, r.at("os-extended-volumes:volumes_attached.0.delete_on_termination"), told)
		}
		v := b.want(b.user.get(volume, "/volumes/"+disk), http.StatusOK)
		b.same("status", v.word("volume.status"), "in-use")
		b.same("volume_type", v.word("volume.volume_type"), b.volumeType)
		b.same("server", v.word("volume.attachments.0.server_id"), id)
		b.want(b.user.delete(volume, "/volumes/"+disk), http.StatusBadRequest)
		b.remove(id)
		b.until("the volume is gone", func() bool { return b.user.get(volume, "/volumes/"+disk).status == http.StatusNotFound })
	}},
	{"a volume without delete_on_termination outlives its server and can be deleted", volumes, func(b *bench) {
		id := b.boot(b.fromVolume(doc{"delete_on_termination": false}))
		disk := b.user.get(compute, "/servers/"+id).word("server.os-extended-volumes:volumes_attached.0.id")
		b.remove(id)
		b.until("the volume is free", func() bool { return b.user.get(volume, "/volumes/"+disk).word("volume.status") == "available" })
		b.want(b.user.delete(volume, "/volumes/"+disk), http.StatusAccepted)
		b.until("the volume is gone", func() bool { return b.user.get(volume, "/volumes/"+disk).status == http.StatusNotFound })
		b.want(b.user.delete(volume, "/volumes/"+disk), http.StatusNotFound)
	}},
	{"an unknown volume type is refused with 400, and so is every volume type below microversion 2.67", volumes, func(b *bench) {
		b.want(b.server(b.fromVolume(doc{"volume_type": "no-such-type"})), http.StatusBadRequest, "no-such-type")
		early := b.fromVolume(doc{"volume_type": b.volumeType})
		early.version = "2.66"
		b.want(b.server(early), http.StatusBadRequest, "Additional properties are not allowed ('volume_type' was unexpected)")
	}},
	{"a request for a server whose boot volume has no size is refused with 400", volumes, func(b *bench) {
		b.want(b.server(b.fromVolume(doc{"volume_size": nil})), http.StatusBadRequest)
	}},
	{"a volume beyond the quota is refused by Cinder with 413, and a server that needs the volume goes to ERROR", operatorAndVolumes, volumeQuota},
}

func volumeQuota(b *bench) {
	b.misfortune(b.T).limit(b.T, "volumes", 0)
	a := b.want(b.user.post(volume, "/volumes", doc{"volume": doc{"size": 1, "name": b.name()}}), http.StatusRequestEntityTooLarge,
		"VolumeLimitExceeded: Maximum number of volumes allowed (0) exceeded for quota 'volumes'.")
	b.same("code", a.at("overLimit.code"), 413)
	w := b.fromVolume(nil)
	port := b.portID()
	w.fields["networks"] = []doc{{"port": port}}
	id := b.want(b.server(w), http.StatusAccepted).word("server.id")
	a = b.status(id, "ERROR")
	if text := a.word("server.fault.message"); !strings.Contains(text, "VolumeLimitExceeded: Maximum number of volumes allowed (0) exceeded for quota 'volumes'.") {
		b.Errorf("fault is %q", text)
	}
	b.remove(id)
	b.unbound(port)
}
