package nova

import (
	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

func serverLinks(base, id string) []wire.Object {
	return []wire.Object{
		{{"rel", "self"}, {"href", base + "/compute/v2.1/servers/" + id}},
		{{"rel", "bookmark"}, {"href", base + "/compute/servers/" + id}},
	}
}

// powerStates are the power states by vm_state.
var powerStates = map[string]int{active: 1, "paused": 3, stopped: 4, "suspended": 4, "resized": 1, "rescued": 1, "shelved": 4, "shelved_offloaded": 4}

// view renders a server as for a GET. With inList it omits the fields that only a GET shows.
func (s *server) view(q *api.Request, inList bool) wire.Object {
	o := wire.Object{
		{"id", s.id}, {"name", s.name}, {"status", s.status()}, {"tenant_id", s.project}, {"user_id", s.user},
		{"metadata", wire.MetadataView(s.metadata)}, {"hostId", s.hostID()}, {"image", s.imageOf(q)}, {"flavor", flavorOf(q, s.flavor)},
		{"created", wire.Zulu(s.created)}, {"updated", wire.Zulu(s.updated)}, {"addresses", s.addresses},
		{"accessIPv4", s.accessIPv4}, {"accessIPv6", s.accessIPv6}, {"links", serverLinks(q.Base, s.id)},
		{"OS-DCF:diskConfig", s.diskConfig}, {"OS-EXT-AZ:availability_zone", s.zoneNow()}, {"config_drive", configDrive(s)},
		{"key_name", wire.OrNull(s.keyName)}, {"OS-SRV-USG:launched_at", wire.Naive(s.launched)}, {"OS-SRV-USG:terminated_at", wire.Naive(s.terminated)},
		{"OS-EXT-STS:task_state", wire.OrNull(s.task)}, {"OS-EXT-STS:vm_state", s.state}, {"OS-EXT-STS:power_state", powerStates[s.state]},
		{"os-extended-volumes:volumes_attached", s.volumesOf(q)},
	}
	if s.state == building || s.state == active {
		o = append(o, wire.Member{"progress", 0})
	}
	if len(s.groups) > 0 && s.state != deleted {
		o = append(o, wire.Member{"security_groups", groupsOf(s)})
	}
	listed := !inList || !s.unlisted
	if s.fault != nil && (s.state == failed || s.state == deleted) && listed {
		o = append(o, wire.Member{"fault", wire.Object{{"code", s.fault.code}, {"created", wire.Zulu(s.fault.created)}, {"message", s.fault.message}}})
	}
	return append(o, s.newer(q, inList)...)
}

// row renders a server for a detailed list.
func (s *server) row(q *api.Request) wire.Encoded {
	if s.rendered == nil || s.rendered.base != q.Base || s.rendered.version != q.Version {
		s.rendered = &rendering{base: q.Base, version: q.Version, text: wire.Encode(nil, s.view(q, true))}
	}
	return s.rendered.text
}

// newer returns the fields that microversions after 2.1 add.
func (s *server) newer(q *api.Request, inList bool) wire.Object {
	var o wire.Object
	v := q.Version
	if v.AtLeast(2, 9) {
		o = append(o, wire.Member{"locked", s.locked})
	}
	if v.AtLeast(2, 19) {
		o = append(o, wire.Member{"description", wire.OrNull(s.description)})
	}
	if v.AtLeast(2, 26) {
		o = append(o, wire.Member{"tags", append([]string{}, s.tags...)})
	}
	if v.AtLeast(2, 63) {
		o = append(o, wire.Member{"trusted_image_certificates", nil})
	}
	if v.AtLeast(2, 71) && !inList {
		groups := []string{}
		if s.group != nil {
			groups = append(groups, s.group.ID)
		}
		o = append(o, wire.Member{"server_groups", groups})
	}
	if v.AtLeast(2, 73) {
		o = append(o, wire.Member{"locked_reason", nil})
	}
	if v.AtLeast(2, 90) {
		o = append(o, wire.Member{"OS-EXT-SRV-ATTR:hostname", s.hostname})
	}
	return o
}

// hostID returns the hostId that the server's project sees; empty until the host is shown.
func (s *server) hostID() string {
	if s.host == nil || s.unclaimed {
		return ""
	}
	return s.host.IDFor(s.project)
}

// zoneNow returns the host's zone. Before a host is chosen, it returns the requested zone.
func (s *server) zoneNow() string {
	if s.host == nil {
		return s.zone
	}
	return s.host.Zone
}

func configDrive(s *server) string {
	if s.configDrive {
		return "True"
	}
	return ""
}

// imageOf returns the server's image, or an empty string for a server that boots from a volume.
func (s *server) imageOf(q *api.Request) any {
	if s.image == nil {
		return ""
	}
	return wire.Object{{"id", s.image.ID}, {"links", []wire.Object{{{"rel", "bookmark"}, {"href", q.Base + "/compute/images/" + s.image.ID}}}}}
}

// flavorOf returns a reference to the flavor below 2.47, and the flavor itself without its ID from
// 2.47 on.
func flavorOf(q *api.Request, f *inventory.Flavor) wire.Object {
	if !q.Version.AtLeast(2, 47) {
		return wire.Object{{"id", f.ID}, {"links", []wire.Object{{{"rel", "bookmark"}, {"href", q.Base + "/compute/flavors/" + f.ID}}}}}
	}
	return wire.Object{
		{"original_name", f.Name}, {"vcpus", f.VCPUs}, {"ram", f.RAM}, {"disk", f.Disk}, {"ephemeral", f.Ephemeral},
		{"swap", f.Swap}, {"extra_specs", wire.MetadataView(f.ExtraSpecs)},
	}
}

func (s *server) volumesOf(q *api.Request) []wire.Object {
	out := make([]wire.Object, 0, len(s.volumes))
	for _, v := range s.volumes {
		o := wire.Object{{"id", v.Volume}}
		if q.Version.AtLeast(2, 3) {
			o = append(o, wire.Member{"delete_on_termination", v.DeleteOnTermination})
		}
		out = append(out, o)
	}
	return out
}

func groupsOf(s *server) []wire.Object {
	out := make([]wire.Object, 0, len(s.groups))
	for _, g := range s.groups {
		out = append(out, wire.Object{{"name", g}})
	}
	return out
}
