package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// volumes is what Cinder knows.
type volumes struct {
	types table[*volumeType]
	rows  table[*volume]
}

type volumeType struct{ id, name string }

type volume struct {
	id, name, project, kind, status string
	size                            int
	created                         time.Time
	server, device                  string
	image                           *Image
	metadata                        map[string]string
}

func (v *volumes) hasType(name string) bool {
	return slices.ContainsFunc(v.types.all(), func(t *volumeType) bool { return t.name == name || t.id == name })
}

func (v *volume) view() object {
	attachments := []object{}
	if v.server != "" {
		attachments = append(attachments, object{
			{"id", v.id}, {"attachment_id", v.id}, {"volume_id", v.id}, {"server_id", v.server}, {"device", v.device}, {"attached_at", naive(v.created)},
		})
	}
	bootable := "false"
	if v.image != nil {
		bootable = "true"
	}
	return object{
		{"id", v.id}, {"name", v.name}, {"description", ""}, {"status", v.status}, {"size", v.size}, {"volume_type", v.kind},
		{"bootable", bootable}, {"availability_zone", "nova"}, {"attachments", attachments}, {"metadata", metadataView(v.metadata)},
		{"created_at", naive(v.created)}, {"updated_at", naive(v.created)}, {"os-vol-tenant-attr:tenant_id", v.project},
		{"snapshot_id", nil}, {"source_volid", nil}, {"encrypted", false}, {"multiattach", false}, {"user_id", ""},
	}
}

func volumeRoutes(rt *router) {
	n := serviceVolume
	rt.add(n, http.MethodGet, "/types", listVolumeTypes)
	rt.add(n, http.MethodPost, "/volumes", createVolume)
	rt.add(n, http.MethodGet, "/volumes", listVolumes)
	rt.add(n, http.MethodGet, "/volumes/detail", listVolumes)
	rt.add(n, http.MethodGet, "/volumes/{id}", showVolume)
	rt.add(n, http.MethodDelete, "/volumes/{id}", deleteVolume)
	rt.add(n, http.MethodGet, "/limits", showVolumeLimits)
}

func listVolumeTypes(c *Cloud, _ *request) reply {
	list := []object{}
	for _, t := range c.volumes.types.all() {
		list = append(list, object{
			{"id", t.id}, {"name", t.name}, {"description", nil}, {"is_public", true}, {"os-volume-type-access:is_public", true},
			{"qos_specs_id", nil}, {"extra_specs", object{}},
		})
	}
	return ok("volume_types", list)
}

// volumeUse is how many volumes a project has, and their gibibytes.
func (c *Cloud) volumeUse(project string) (count, gigabytes int) {
	for _, v := range c.volumes.rows.all() {
		if v.project == project {
			count++
			gigabytes += v.size
		}
	}
	return count, gigabytes
}

// overVolumeQuota says in Cinder's words what one more volume would exceed; empty when it fits.
func (c *Cloud) overVolumeQuota(project string, size int) string {
	quota := c.quotaOf(project)
	count, gigabytes := c.volumeUse(project)
	if beyond(quota.Volumes, count+1) {
		return fmt.Sprintf("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", shown(quota.Volumes))
	}
	if beyond(quota.Gigabytes, gigabytes+size) {
		return fmt.Sprintf("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested %dG, quota is %dG and %dG has been consumed.",
			size, shown(quota.Gigabytes), gigabytes)
	}
	return ""
}

func createVolume(c *Cloud, q *request) reply {
	var in struct {
		Volume struct {
			Name        string            `json:"name"`
			Description string            `json:"description"`
			Size        int               `json:"size"`
			VolumeType  string            `json:"volume_type"`
			ImageRef    string            `json:"imageRef"`
			Zone        string            `json:"availability_zone"`
			Metadata    map[string]string `json:"metadata"`
		} `json:"volume"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	if text := c.overVolumeQuota(q.project(), in.Volume.Size); text != "" {
		return novaError(http.StatusRequestEntityTooLarge, text).with("Retry-After", "0")
	}
	v := &volume{
		id: c.newID(), name: in.Volume.Name, project: q.project(), size: in.Volume.Size, kind: in.Volume.VolumeType, status: "available",
		created: q.now, metadata: in.Volume.Metadata,
	}
	v.image, _ = c.images.get(in.Volume.ImageRef)
	c.volumes.rows.put(v.id, v)
	return reply{status: http.StatusAccepted, body: object{{"volume", v.view()}}}
}

func listVolumes(c *Cloud, q *request) reply {
	list := []object{}
	for _, v := range c.volumes.rows.all() {
		if v.project == q.project() && (!q.URL.Query().Has("name") || v.name == q.URL.Query().Get("name")) {
			list = append(list, v.view())
		}
	}
	return ok("volumes", list)
}

func (c *Cloud) ownVolume(q *request) (*volume, reply) {
	v, known := c.volumes.rows.get(q.PathValue("id"))
	if !known || v.project != q.project() {
		return nil, novaError(http.StatusNotFound, fmt.Sprintf("Volume %s could not be found.", q.PathValue("id")))
	}
	return v, reply{}
}

func showVolume(c *Cloud, q *request) reply {
	v, refused := c.ownVolume(q)
	if v == nil {
		return refused
	}
	return ok("volume", v.view())
}

func deleteVolume(c *Cloud, q *request) reply {
	v, refused := c.ownVolume(q)
	if v == nil {
		return refused
	}
	if v.server != "" {
		return novaError(http.StatusBadRequest, "Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
	}
	c.volumes.rows.remove(v.id)
	return empty(http.StatusAccepted)
}

func showVolumeLimits(c *Cloud, q *request) reply {
	quota := c.quotaOf(q.project())
	count, gigabytes := c.volumeUse(q.project())
	return ok("limits", object{{"rate", []object{}}, {"absolute", object{
		{"maxTotalVolumes", shown(quota.Volumes)}, {"maxTotalVolumeGigabytes", shown(quota.Gigabytes)},
		{"totalVolumesUsed", count}, {"totalGigabytesUsed", gigabytes},
	}}})
}

// attachDevices makes the volumes that a server was asked to have, and attaches those that exist. What goes wrong comes
// back as the text of the server's fault.
func (c *Cloud) attachDevices(s *server, at time.Time) string {
	var list []attachment
	defer func() { c.edit(s, at, func() { s.volumes = list }) }()
	for i, b := range s.devices {
		if b.DestinationType != "volume" && b.SourceType != "volume" {
			continue
		}
		v, exists := c.volumes.rows.get(b.UUID)
		if b.SourceType != "volume" || !exists {
			if text := c.overVolumeQuota(s.project, b.VolumeSize); text != "" {
				return fmt.Sprintf("Build of instance %s aborted: %s", s.id, text)
			}
			v = &volume{id: c.newID(), project: s.project, size: b.VolumeSize, created: at}
			v.image, _ = c.images.get(b.UUID)
			set(&v.kind, b.VolumeType)
			c.volumes.rows.put(v.id, v)
		}
		v.server, v.device, v.status = s.id, fmt.Sprintf("/dev/vd%c", 'a'+i), "in-use"
		list = append(list, attachment{volume: v.id, device: v.device, deleteOnTermination: b.DeleteOnTermination})
	}
	return ""
}

// releaseVolumes deletes those that go with their server and frees the others.
func (c *Cloud) releaseVolumes(s *server) {
	for _, a := range s.volumes {
		v, known := c.volumes.rows.get(a.volume)
		if !known {
			continue
		}
		if a.deleteOnTermination {
			c.volumes.rows.remove(v.id)
			continue
		}
		v.server, v.device, v.status = "", "", "available"
	}
}
