package openstack

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Image is an operating system image.
type Image struct {
	// ID; empty: made up.
	ID, Name string
	// MinDisk is in GiB, MinRAM in MiB.
	MinDisk, MinRAM int
	// Size is in bytes.
	Size int
	// Status; empty: active.
	Status string
	// Project, when named, is its owner, and the only one that sees it.
	Project string
	// Community: everybody sees it who asks for its ID; lists leave it out unless they are asked for that visibility.
	Community bool
	Tags      []string
	// Properties are shown among the other attributes, as Glance does: os_distro, architecture …
	Properties map[string]string
	created    time.Time
}

func (i *Image) seenBy(project string) bool {
	return i.Project == "" || i.Project == project || i.Community
}

func (i *Image) status() string {
	if i.Status == "" {
		return "active"
	}
	return i.Status
}

func (i *Image) view() object {
	visibility := "public"
	if i.Project != "" {
		visibility = "private"
	}
	if i.Community {
		visibility = "community"
	}
	o := object{
		{"id", i.ID}, {"name", i.Name}, {"status", i.status()}, {"visibility", visibility}, {"owner", orNull(i.Project)},
		{"min_disk", i.MinDisk}, {"min_ram", i.MinRAM}, {"size", i.Size}, {"virtual_size", nil}, {"disk_format", "raw"},
		{"container_format", "bare"}, {"checksum", nil}, {"protected", false}, {"os_hidden", false}, {"tags", append([]string{}, i.Tags...)},
		{"created_at", zulu(i.created)}, {"updated_at", zulu(i.created)}, {"file", "/v2/images/" + i.ID + "/file"},
		{"self", "/v2/images/" + i.ID}, {"schema", "/v2/schemas/image"},
	}
	return append(o, metadataView(i.Properties)...)
}

func (svc *glance) routes(rt *router) {
	rt.add(serviceImage, http.MethodGet, "/images", svc.listImages)
	rt.add(serviceImage, http.MethodGet, "/images/{id}", svc.showImage)
}

// imageParameters are the query values that are no filters.
var imageParameters = []string{"limit", "marker", "sort", "sort_key", "sort_dir", "tag", "member_status", "visibility"}

// maxImages is how many a page holds when the query does not say; Glance's own default is 25.
const maxImages = 25

// listImages goes from the newest to the oldest, page by page.
func (svc *glance) listImages(q *request) reply {
	query := q.URL.Query()
	var list []object
	for i := len(svc.rows.all()) - 1; i >= 0; i-- {
		image := svc.rows.all()[i]
		listed := !image.Community || query.Get("visibility") == "community"
		if listed && image.seenBy(q.caller.projectName) && q.imageMatches(image.view()) {
			list = append(list, image.view())
		}
	}
	if marker := query.Get("marker"); marker != "" {
		at := slices.IndexFunc(list, func(o object) bool { return o[0].value == marker })
		if at < 0 {
			return glanceError(http.StatusBadRequest, "Invalid marker. Image could not be found.")
		}
		list = list[at+1:]
	}
	limit := maxImages
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		limit = min(n, 1000)
	}
	body := object{{"images", list}, {"first", "/v2/images"}, {"schema", "/v2/schemas/images"}}
	if len(list) > limit {
		list = list[:limit]
		query.Set("marker", list[limit-1][0].value.(string))
		body = append(body, member{"next", "/v2/images?" + query.Encode()})
	}
	if body[0].value = any(list); list == nil {
		body[0].value = []object{}
	}
	return reply{status: http.StatusOK, body: body}
}

// imageMatches compares the query with an image; `in:a,b` means one of them.
func (q *request) imageMatches(o object) bool {
	for key, wanted := range q.URL.Query() {
		if slices.Contains(imageParameters, key) {
			continue
		}
		if several, found := strings.CutPrefix(wanted[0], "in:"); found {
			wanted = strings.Split(strings.ReplaceAll(several, `"`, ""), ",")
		}
		if !o.has(key, wanted) {
			return false
		}
	}
	for _, t := range q.URL.Query()["tag"] {
		if !o.has("tags", []string{t}) {
			return false
		}
	}
	return true
}

func (svc *glance) showImage(q *request) reply {
	i, known := svc.rows.get(q.PathValue("id"))
	if !known || !i.seenBy(q.caller.projectName) {
		return glanceError(http.StatusNotFound, "No image found with ID "+q.PathValue("id"))
	}
	return reply{status: http.StatusOK, body: i.view()}
}

// glance is the image service of a cloud.
type glance struct {
	kernel *kernel
	rows   table[*Image]
}

// image returns an image by its ID.
func (svc *glance) image(id string) (*Image, bool) { return svc.rows.get(id) }

// AddImage adds an image and gives its ID.
func (svc *glance) AddImage(i Image) string {
	i.ID, i.created = svc.kernel.orNew(i.ID), svc.kernel.now()
	svc.rows.put(i.ID, &i)
	return i.ID
}

// RemoveImage removes an image.
func (svc *glance) RemoveImage(id string) {
	svc.rows.remove(id)
}

// newGlance returns an image service without images.
func newGlance(k *kernel) *glance { return &glance{kernel: k} }
