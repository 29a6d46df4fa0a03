package openstack

import (
	"crypto/sha256"
	"encoding/hex"
)

func serverLinks(base, id string) []object {
	return []object{
		{{"rel", "self"}, {"href", base + "/compute/v2.1/servers/" + id}},
		{{"rel", "bookmark"}, {"href", base + "/compute/servers/" + id}},
	}
}

// powerStates by vm_state.
var powerStates = map[string]int{active: 1, stopped: 4}

// view renders a server as GET does; inList leaves out what only a GET shows.
func (q *request) view(s *server, inList bool) object {
	o := object{
		{"id", s.id}, {"name", s.name}, {"status", s.status()}, {"tenant_id", s.project}, {"user_id", s.user},
		{"metadata", metadataView(s.metadata)}, {"hostId", s.hostID()}, {"image", q.imageOf(s)}, {"flavor", q.flavorOf(s.flavor)},
		{"created", zulu(s.created)}, {"updated", zulu(s.updated)}, {"addresses", s.addresses},
		{"accessIPv4", ""}, {"accessIPv6", ""}, {"links", serverLinks(q.base, s.id)},
		{"OS-DCF:diskConfig", s.diskConfig}, {"OS-EXT-AZ:availability_zone", s.zoneNow()}, {"config_drive", configDrive(s)},
		{"key_name", orNull(s.keyName)}, {"OS-SRV-USG:launched_at", naive(s.launched)}, {"OS-SRV-USG:terminated_at", naive(s.terminated)},
		{"OS-EXT-STS:task_state", orNull(s.task)}, {"OS-EXT-STS:vm_state", s.state}, {"OS-EXT-STS:power_state", powerStates[s.state]},
		{"os-extended-volumes:volumes_attached", q.volumesOf(s)},
	}
	if s.state == building || s.state == active {
		o = append(o, member{"progress", 0})
	}
	if len(s.groups) > 0 && s.state != deleted {
		o = append(o, member{"security_groups", groupsOf(s)})
	}
	listed := !inList || !s.unlisted
	if s.fault != nil && (s.state == failed || s.state == deleted) && listed {
		o = append(o, member{"fault", object{{"code", s.fault.code}, {"created", zulu(s.fault.created)}, {"message", s.fault.message}}})
	}
	return append(o, q.newer(s, inList)...)
}

// rendering is a server as a list shows it, kept until the server changes.
type rendering struct {
	base    string
	version microversion
	text    encoded
}

// row renders a server for a detailed list.
func (q *request) row(s *server) encoded {
	if s.rendered == nil || s.rendered.base != q.base || s.rendered.version != q.version {
		s.rendered = &rendering{base: q.base, version: q.version, text: encode(nil, q.view(s, true))}
	}
	return s.rendered.text
}

// newer is what later microversions add.
func (q *request) newer(s *server, inList bool) object {
	var o object
	v := q.version
	if v.atLeast(2, 9) {
		o = append(o, member{"locked", s.locked})
	}
	if v.atLeast(2, 19) {
		o = append(o, member{"description", orNull(s.description)})
	}
	if v.atLeast(2, 26) {
		o = append(o, member{"tags", append([]string{}, s.tags...)})
	}
	if v.atLeast(2, 63) {
		o = append(o, member{"trusted_image_certificates", nil})
	}
	if v.atLeast(2, 71) && !inList {
		groups := []string{}
		if s.group != nil {
			groups = append(groups, s.group.id)
		}
		o = append(o, member{"server_groups", groups})
	}
	if v.atLeast(2, 73) {
		o = append(o, member{"locked_reason", nil})
	}
	if v.atLeast(2, 90) {
		o = append(o, member{"OS-EXT-SRV-ATTR:hostname", s.hostname})
	}
	return o
}

// hostID tells hosts apart within a project and no further.
func (s *server) hostID() string {
	if s.host == nil || s.unclaimed {
		return ""
	}
	if s.host.ids == nil {
		s.host.ids = map[string]string{}
	}
	id, known := s.host.ids[s.project]
	if !known {
		sum := sha256.Sum224([]byte(s.project + s.host.Name))
		id = hex.EncodeToString(sum[:])
		s.host.ids[s.project] = id
	}
	return id
}

// zoneNow is the host's zone, and before there is a host the one that was asked for.
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

// imageOf is an empty string for a server that boots from a volume.
func (q *request) imageOf(s *server) any {
	if s.image == nil {
		return ""
	}
	return object{{"id", s.image.ID}, {"links", []object{{{"rel", "bookmark"}, {"href", q.base + "/compute/images/" + s.image.ID}}}}}
}

// flavorOf is a reference below 2.47 and the flavor itself, without its ID, from there on.
func (q *request) flavorOf(f *Flavor) object {
	if !q.version.atLeast(2, 47) {
		return object{{"id", f.ID}, {"links", []object{{{"rel", "bookmark"}, {"href", q.base + "/compute/flavors/" + f.ID}}}}}
	}
	return object{
		{"original_name", f.Name}, {"vcpus", f.VCPUs}, {"ram", f.RAM}, {"disk", f.Disk}, {"ephemeral", f.Ephemeral},
		{"swap", f.Swap}, {"extra_specs", metadataView(f.ExtraSpecs)},
	}
}

func (q *request) volumesOf(s *server) []object {
	out := make([]object, 0, len(s.volumes))
	for _, v := range s.volumes {
		o := object{{"id", v.volume}}
		if q.version.atLeast(2, 3) {
			o = append(o, member{"delete_on_termination", v.deleteOnTermination})
		}
		out = append(out, o)
	}
	return out
}

func groupsOf(s *server) []object {
	out := make([]object, 0, len(s.groups))
	for _, g := range s.groups {
		out = append(out, object{{"name", g}})
	}
	return out
}
