package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// images is what Cinder needs of Glance.
type images interface {
	// image returns an image by its ID.
	image(id string) (*Image, bool)
}

// cinder is the volume service of a cloud.
type cinder struct {
	kernel *kernel
	quotas *quotas
	images images

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

func (svc *cinder) hasType(name string) bool {
	return slices.ContainsFunc(svc.types.all(), func(t *volumeType) bool { return t.name == name || t.id == name })
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

func (svc *cinder) routes(rt *router) {
	n := serviceVolume
	rt.add(n, http.MethodGet, "/types", svc.listVolumeTypes)
	rt.add(n, http.MethodPost, "/volumes", svc.createVolume)
	rt.add(n, http.MethodGet, "/volumes", svc.listVolumes)
	rt.add(n, http.MethodGet, "/volumes/detail", svc.listVolumes)
	rt.add(n, http.MethodGet, "/volumes/{id}", svc.showVolume)
	rt.add(n, http.MethodDelete, "/volumes/{id}", svc.deleteVolume)
	rt.add(n, http.MethodGet, "/limits", svc.showVolumeLimits)
}

func (svc *cinder) listVolumeTypes(_ *request) reply {
	list := []object{}
	for _, t := range svc.types.all() {
		list = append(list, object{
			{"id", t.id}, {"name", t.name}, {"description", nil}, {"is_public", true}, {"os-volume-type-access:is_public", true},
			{"qos_specs_id", nil}, {"extra_specs", object{}},
		})
	}
	return ok("volume_types", list)
}

// volumeUse is how many volumes a project has, and their gibibytes.
func (svc *cinder) volumeUse(project string) (count, gigabytes int) {
	for _, v := range svc.rows.all() {
		if v.project == project {
			count++
			gigabytes += v.size
		}
	}
	return count, gigabytes
}

// overVolumeQuota says in Cinder's words what one more volume would exceed; empty when it fits.
func (svc *cinder) overVolumeQuota(project string, size int) string {
	quota := svc.quotas.of(project)
	count, gigabytes := svc.volumeUse(project)
	if beyond(quota.Volumes, count+1) {
		return fmt.Sprintf("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", shown(quota.Volumes))
	}
	if beyond(quota.Gigabytes, gigabytes+size) {
		return fmt.Sprintf("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested %dG, quota is %dG and %dG has been consumed.",
			size, shown(quota.Gigabytes), gigabytes)
	}
	return ""
}

func (svc *cinder) createVolume(q *request) reply {
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
	if text := svc.overVolumeQuota(q.project(), in.Volume.Size); text != "" {
		return novaError(http.StatusRequestEntityTooLarge, text).with("Retry-After", "0")
	}
	v := &volume{
		id: svc.kernel.newID(), name: in.Volume.Name, project: q.project(), size: in.Volume.Size, kind: in.Volume.VolumeType, status: "available",
		created: q.now, metadata: in.Volume.Metadata,
	}
	v.image, _ = svc.images.image(in.Volume.ImageRef)
	svc.rows.put(v.id, v)
	return reply{status: http.StatusAccepted, body: object{{"volume", v.view()}}}
}

func (svc *cinder) listVolumes(q *request) reply {
	list := []object{}
	for _, v := range svc.rows.all() {
		if v.project == q.project() && (!q.URL.Query().Has("name") || v.name == q.URL.Query().Get("name")) {
			list = append(list, v.view())
		}
	}
	return ok("volumes", list)
}

func (svc *cinder) ownVolume(q *request) (*volume, reply) {
	v, known := svc.rows.get(q.PathValue("id"))
	if !known || v.project != q.project() {
		return nil, novaError(http.StatusNotFound, fmt.Sprintf("Volume %s could not be found.", q.PathValue("id")))
	}
	return v, reply{}
}

func (svc *cinder) showVolume(q *request) reply {
	v, refused := svc.ownVolume(q)
	if v == nil {
		return refused
	}
	return ok("volume", v.view())
}

func (svc *cinder) deleteVolume(q *request) reply {
	v, refused := svc.ownVolume(q)
	if v == nil {
		return refused
	}
	if v.server != "" {
		return novaError(http.StatusBadRequest, "Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
	}
	svc.rows.remove(v.id)
	return empty(http.StatusAccepted)
}

func (svc *cinder) showVolumeLimits(q *request) reply {
	quota := svc.quotas.of(q.project())
	count, gigabytes := svc.volumeUse(q.project())
	return ok("limits", object{{"rate", []object{}}, {"absolute", object{
		{"maxTotalVolumes", shown(quota.Volumes)}, {"maxTotalVolumeGigabytes", shown(quota.Gigabytes)},
		{"totalVolumesUsed", count}, {"totalGigabytesUsed", gigabytes},
	}}})
}

// volume returns a volume by its ID.
func (svc *cinder) volume(id string) (*volume, bool) { return svc.rows.get(id) }

// device is a volume that a server is to have: an existing one when it is named by its ID, else a new one.
type device struct {
	existing            bool
	id                  string // of the volume, or of the image that a new one is made of
	size                int
	kind                *string
	path                string
	deleteOnTermination bool
}

// attachment is a volume that a server has.
type attachment struct {
	volume, device      string
	deleteOnTermination bool
}

// attach gives a server a volume. What goes wrong comes back as the text of the server's fault.
func (svc *cinder) attach(server, project string, d device, at time.Time) (attachment, string) {
	v, exists := svc.rows.get(d.id)
	if !d.existing || !exists {
		if text := svc.overVolumeQuota(project, d.size); text != "" {
			return attachment{}, fmt.Sprintf("Build of instance %s aborted: %s", server, text)
		}
		v = &volume{id: svc.kernel.newID(), project: project, size: d.size, created: at}
		v.image, _ = svc.images.image(d.id)
		set(&v.kind, d.kind)
		svc.rows.put(v.id, v)
	}
	v.server, v.device, v.status = server, d.path, "in-use"
	return attachment{volume: v.id, device: v.device, deleteOnTermination: d.deleteOnTermination}, ""
}

// release deletes the volumes that go with their server and frees the others.
func (svc *cinder) release(attachments []attachment) {
	for _, a := range attachments {
		v, known := svc.rows.get(a.volume)
		if !known {
			continue
		}
		if a.deleteOnTermination {
			svc.rows.remove(v.id)
			continue
		}
		v.server, v.device, v.status = "", "", "available"
	}
}

// AddVolumeType adds a volume type and gives its ID.
func (svc *cinder) AddVolumeType(name string) string {
	t := &volumeType{id: svc.kernel.newID(), name: name}
	svc.types.put(t.id, t)
	return t.id
}

// newCinder returns a volume service without volumes and types.
func newCinder(k *kernel, q *quotas, i images) *cinder {
	return &cinder{kernel: k, quotas: q, images: i}
}

// VolumeIDs returns the IDs of all volumes.
func (svc *cinder) VolumeIDs() []string { return svc.rows.allIDs() }
