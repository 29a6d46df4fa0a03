// Package glance is the image service of the simulated cloud. It does not use any other service.
package glance

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/table"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// Image is an operating system image.
type Image struct {
	// ID and Name identify the image. An empty ID means a generated one.
	ID, Name string
	// MinDisk is in GiB, MinRAM in MiB.
	MinDisk, MinRAM int
	// Size is in bytes.
	Size int
	// Status is the image's status. Empty means active.
	Status string
	// Project is the name of the project that owns the image. If it is set, other projects see the image only when
	// Community is true.
	Project string
	// Community is true for an image that every project can read by its ID. A list includes it only when the query
	// has visibility=community.
	Community bool
	Tags      []string
	// Properties are shown among the other attributes, as Glance does: os_distro, architecture …
	Properties map[string]string
	created    time.Time
}

// SeenBy reports whether the project with the name sees the image.
func (i *Image) SeenBy(project string) bool {
	return i.Project == "" || i.Project == project || i.Community
}

// State returns the status as the API shows it.
func (i *Image) State() string {
	if i.Status == "" {
		return "active"
	}
	return i.Status
}

func (i *Image) view() wire.Object {
	visibility := "public"
	if i.Project != "" {
		visibility = "private"
	}
	if i.Community {
		visibility = "community"
	}
	o := wire.Object{
		{"id", i.ID}, {"name", i.Name}, {"status", i.State()}, {"visibility", visibility}, {"owner", wire.OrNull(i.Project)},
		{"min_disk", i.MinDisk}, {"min_ram", i.MinRAM}, {"size", i.Size}, {"virtual_size", nil}, {"disk_format", "raw"},
		{"container_format", "bare"}, {"checksum", nil}, {"protected", false}, {"os_hidden", false}, {"tags", append([]string{}, i.Tags...)},
		{"created_at", wire.Zulu(i.created)}, {"updated_at", wire.Zulu(i.created)}, {"file", "/v2/images/" + i.ID + "/file"},
		{"self", "/v2/images/" + i.ID}, {"schema", "/v2/schemas/image"},
	}
	return append(o, wire.MetadataView(i.Properties)...)
}

// Routes adds the calls that Glance answers.
func (svc *Service) Routes(rt *api.Router) {
	rt.Add(api.ServiceImage, http.MethodGet, "/images", svc.listImages)
	rt.Add(api.ServiceImage, http.MethodGet, "/images/{id}", svc.showImage)
}

// imageParameters are the query parameters that are not filters.
var imageParameters = []string{"limit", "marker", "sort", "sort_key", "sort_dir", "tag", "member_status", "visibility"}

// maxImages is the size of a page when the query sets no limit. Glance's own default is 25.
const maxImages = 25

// listImages lists images from the newest to the oldest, page by page.
func (svc *Service) listImages(q *api.Request) api.Reply {
	query := q.URL.Query()
	var list []wire.Object
	for i := len(svc.rows.All()) - 1; i >= 0; i-- {
		image := svc.rows.All()[i]
		listed := !image.Community || query.Get("visibility") == "community"
		if listed && image.SeenBy(q.Caller.ProjectName) && imageMatches(q, image.view()) {
			list = append(list, image.view())
		}
	}
	if marker := query.Get("marker"); marker != "" {
		at := slices.IndexFunc(list, func(o wire.Object) bool { return o[0].Value == marker })
		if at < 0 {
			return api.GlanceError(http.StatusBadRequest, "Invalid marker. Image could not be found.")
		}
		list = list[at+1:]
	}
	limit := maxImages
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		limit = min(n, 1000)
	}
	body := wire.Object{{"images", list}, {"first", "/v2/images"}, {"schema", "/v2/schemas/images"}}
	if len(list) > limit {
		list = list[:limit]
		query.Set("marker", list[limit-1][0].Value.(string))
		body = append(body, wire.Member{"next", "/v2/images?" + query.Encode()})
	}
	if body[0].Value = any(list); list == nil {
		body[0].Value = []wire.Object{}
	}
	return api.Reply{Status: http.StatusOK, Body: body}
}

// imageMatches reports whether an image matches the query; `in:a,b` matches a or b.
func imageMatches(q *api.Request, o wire.Object) bool {
	for key, wanted := range q.URL.Query() {
		if slices.Contains(imageParameters, key) {
			continue
		}
		if several, found := strings.CutPrefix(wanted[0], "in:"); found {
			wanted = strings.Split(strings.ReplaceAll(several, `"`, ""), ",")
		}
		if !o.Has(key, wanted) {
			return false
		}
	}
	for _, t := range q.URL.Query()["tag"] {
		if !o.Has("tags", []string{t}) {
			return false
		}
	}
	return true
}

func (svc *Service) showImage(q *api.Request) api.Reply {
	i, known := svc.rows.Get(q.PathValue("id"))
	if !known || !i.SeenBy(q.Caller.ProjectName) {
		return api.GlanceError(http.StatusNotFound, "No image found with ID "+q.PathValue("id"))
	}
	return api.Reply{Status: http.StatusOK, Body: i.view()}
}

// Service is the image service of a cloud.
type Service struct {
	kernel *kernel.Kernel
	rows   table.Table[*Image]
}

// Image returns an image by its ID.
func (svc *Service) Image(id string) (*Image, bool) { return svc.rows.Get(id) }

// AddImage adds an image and returns its ID.
func (svc *Service) AddImage(i Image) string {
	i.ID, i.created = svc.kernel.OrNew(i.ID), svc.kernel.Now()
	svc.rows.Put(i.ID, &i)
	return i.ID
}

// RemoveImage removes an image.
func (svc *Service) RemoveImage(id string) {
	svc.rows.Remove(id)
}

// New returns an image service without images.
func New(k *kernel.Kernel) *Service { return &Service{kernel: k} }
