// Package cinder is the volume service of the simulated cloud. It has only what boot volumes need. It gets images from
// Glance.
package cinder

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/table"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// images is the part of Glance that Cinder needs.
type images interface {
	// Image returns an image by its ID.
	Image(id string) (*glance.Image, bool)
}

// Service is the volume service of a cloud.
type Service struct {
	kernel *kernel.Kernel
	quotas *quotas.Quotas
	images images

	types table.Table[*volumeType]
	rows  table.Table[*Volume]
}

type volumeType struct{ id, name string }

// Volume is a volume as stored in Cinder.
type Volume struct {
	id, name, Project, kind, Status string
	size                            int
	created                         time.Time
	server, device                  string
	image                           *glance.Image
	metadata                        map[string]string
}

// HasType reports whether there is a volume type with the name or ID.
func (svc *Service) HasType(name string) bool {
	return slices.ContainsFunc(svc.types.All(), func(t *volumeType) bool { return t.name == name || t.id == name })
}

func (v *Volume) view() wire.Object {
	attachments := []wire.Object{}
	if v.server != "" {
		attachments = append(attachments, wire.Object{
			{"id", v.id}, {"attachment_id", v.id}, {"volume_id", v.id}, {"server_id", v.server}, {"device", v.device}, {"attached_at", wire.Naive(v.created)},
		})
	}
	bootable := "false"
	if v.image != nil {
		bootable = "true"
	}
	return wire.Object{
		{"id", v.id}, {"name", v.name}, {"description", ""}, {"status", v.Status}, {"size", v.size}, {"volume_type", v.kind},
		{"bootable", bootable}, {"availability_zone", "nova"}, {"attachments", attachments}, {"metadata", wire.MetadataView(v.metadata)},
		{"created_at", wire.Naive(v.created)}, {"updated_at", wire.Naive(v.created)}, {"os-vol-tenant-attr:tenant_id", v.Project},
		{"snapshot_id", nil}, {"source_volid", nil}, {"encrypted", false}, {"multiattach", false}, {"user_id", ""},
	}
}

// Routes adds the calls that Cinder answers.
func (svc *Service) Routes(rt *api.Router) {
	n := api.ServiceVolume
	rt.Add(n, http.MethodGet, "/types", svc.listVolumeTypes)
	rt.Add(n, http.MethodPost, "/volumes", svc.createVolume)
	rt.Add(n, http.MethodGet, "/volumes", svc.listVolumes)
	rt.Add(n, http.MethodGet, "/volumes/detail", svc.listVolumes)
	rt.Add(n, http.MethodGet, "/volumes/{id}", svc.showVolume)
	rt.Add(n, http.MethodDelete, "/volumes/{id}", svc.deleteVolume)
	rt.Add(n, http.MethodGet, "/limits", svc.showVolumeLimits)
}

func (svc *Service) listVolumeTypes(_ *api.Request) api.Reply {
	list := []wire.Object{}
	for _, t := range svc.types.All() {
		list = append(list, wire.Object{
			{"id", t.id}, {"name", t.name}, {"description", nil}, {"is_public", true}, {"os-volume-type-access:is_public", true},
			{"qos_specs_id", nil}, {"extra_specs", wire.Object{}},
		})
	}
	return api.Ok("volume_types", list)
}

// volumeUse returns how many volumes a project has, and their size in GiB.
func (svc *Service) volumeUse(project string) (count, gigabytes int) {
	for _, v := range svc.rows.All() {
		if v.Project == project {
			count++
			gigabytes += v.size
		}
	}
	return count, gigabytes
}

// overVolumeQuota returns Cinder's error text when one more volume would exceed the quota; empty when it would not.
func (svc *Service) overVolumeQuota(project string, size int) string {
	quota := svc.quotas.Of(project)
	count, gigabytes := svc.volumeUse(project)
	if quotas.Beyond(quota.Volumes, count+1) {
		return fmt.Sprintf("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", quotas.Shown(quota.Volumes))
	}
	if quotas.Beyond(quota.Gigabytes, gigabytes+size) {
		return fmt.Sprintf("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested %dG, quota is %dG and %dG has been consumed.",
			size, quotas.Shown(quota.Gigabytes), gigabytes)
	}
	return ""
}

func (svc *Service) createVolume(q *api.Request) api.Reply {
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
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	if text := svc.overVolumeQuota(q.Project(), in.Volume.Size); text != "" {
		return api.NovaError(http.StatusRequestEntityTooLarge, text).With("Retry-After", "0")
	}
	v := &Volume{
		id: svc.kernel.NewID(), name: in.Volume.Name, Project: q.Project(), size: in.Volume.Size, kind: in.Volume.VolumeType, Status: "available",
		created: q.Now, metadata: in.Volume.Metadata,
	}
	v.image, _ = svc.images.Image(in.Volume.ImageRef)
	svc.rows.Put(v.id, v)
	return api.Reply{Status: http.StatusAccepted, Body: wire.Object{{"volume", v.view()}}}
}

func (svc *Service) listVolumes(q *api.Request) api.Reply {
	list := []wire.Object{}
	for _, v := range svc.rows.All() {
		if v.Project == q.Project() && v.matches(q.URL.Query()) {
			list = append(list, v.view())
		}
	}
	return api.Ok("volumes", list)
}

// matches reports whether a volume matches the filters name, which compares the whole name, and name~, which looks for a part of it.
func (v *Volume) matches(query url.Values) bool {
	return (!query.Has("name") || v.name == query.Get("name")) && strings.Contains(strings.ToLower(v.name), strings.ToLower(query.Get("name~")))
}

func (svc *Service) ownVolume(q *api.Request) (*Volume, api.Reply) {
	v, known := svc.rows.Get(q.PathValue("id"))
	if !known || v.Project != q.Project() {
		return nil, api.NovaError(http.StatusNotFound, fmt.Sprintf("Volume %s could not be found.", q.PathValue("id")))
	}
	return v, api.Reply{}
}

func (svc *Service) showVolume(q *api.Request) api.Reply {
	v, refused := svc.ownVolume(q)
	if v == nil {
		return refused
	}
	return api.Ok("volume", v.view())
}

func (svc *Service) deleteVolume(q *api.Request) api.Reply {
	v, refused := svc.ownVolume(q)
	if v == nil {
		return refused
	}
	if v.server != "" {
		return api.NovaError(http.StatusBadRequest, "Invalid volume: Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
	}
	svc.rows.Remove(v.id)
	return api.Empty(http.StatusAccepted)
}

func (svc *Service) showVolumeLimits(q *api.Request) api.Reply {
	quota := svc.quotas.Of(q.Project())
	count, gigabytes := svc.volumeUse(q.Project())
	return api.Ok("limits", wire.Object{{"rate", []wire.Object{}}, {"absolute", wire.Object{
		{"maxTotalVolumes", quotas.Shown(quota.Volumes)}, {"maxTotalVolumeGigabytes", quotas.Shown(quota.Gigabytes)},
		{"totalVolumesUsed", count}, {"totalGigabytesUsed", gigabytes},
	}}})
}

// Volume returns a volume by its ID.
func (svc *Service) Volume(id string) (*Volume, bool) { return svc.rows.Get(id) }

// Device is a volume for a server: an existing volume, or a new one that is made from an image. ID is the ID of the
// existing volume or of the image.
type Device struct {
	Existing            bool
	ID                  string // of the volume, or of the image from which a new volume is made
	Size                int
	Kind                *string
	Path                string
	DeleteOnTermination bool
}

// Attachment is a volume attached to a server.
type Attachment struct {
	Volume, Device      string
	DeleteOnTermination bool
}

// Attach attaches a volume to a server. When that fails it returns the text of the server's fault.
func (svc *Service) Attach(server, project string, d Device, at time.Time) (Attachment, string) {
	v, exists := svc.rows.Get(d.ID)
	if !d.Existing || !exists {
		if text := svc.overVolumeQuota(project, d.Size); text != "" {
			return Attachment{}, fmt.Sprintf("Build of instance %s aborted: %s", server, text)
		}
		v = &Volume{id: svc.kernel.NewID(), Project: project, size: d.Size, created: at}
		v.image, _ = svc.images.Image(d.ID)
		wire.Set(&v.kind, d.Kind)
		svc.rows.Put(v.id, v)
	}
	v.server, v.device, v.Status = server, d.Path, "in-use"
	return Attachment{Volume: v.id, Device: v.device, DeleteOnTermination: d.DeleteOnTermination}, ""
}

// Release deletes the volumes that are deleted with their server, and detaches the others. If keep is true, it detaches all volumes.
func (svc *Service) Release(attachments []Attachment, keep bool) {
	for _, a := range attachments {
		v, known := svc.rows.Get(a.Volume)
		if !known {
			continue
		}
		if a.DeleteOnTermination && !keep {
			svc.rows.Remove(v.id)
			continue
		}
		v.server, v.device, v.Status = "", "", "available"
	}
}

// AddVolumeType adds a volume type and returns its ID.
func (svc *Service) AddVolumeType(name string) string {
	t := &volumeType{id: svc.kernel.NewID(), name: name}
	svc.types.Put(t.id, t)
	return t.id
}

// New returns a volume service without volumes and types.
func New(k *kernel.Kernel, q *quotas.Quotas, i images) *Service {
	return &Service{kernel: k, quotas: q, images: i}
}

// VolumeIDs returns the IDs of all volumes.
func (svc *Service) VolumeIDs() []string { return svc.rows.AllIDs() }
