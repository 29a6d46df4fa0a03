// Package glance is the image service of the simulated cloud. It does not use any other service but Keystone.
package glance

import (
	"maps"
	"net/http"
	"regexp"
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
	// SharedWith are the names of the projects that the owner shares the image with, and that have accepted it. nil makes an image
	// with a Project private. An empty list makes it shared without members, as Glance makes every image by default.
	SharedWith []string
	// Community is true.
	Project string
	// Community is true for an image that every project can read by its ID. A list includes it only when the query
	// has visibility=community.
	Community bool
	Tags      []string
	// Properties are shown among the other attributes, as Glance does: os_distro, architecture …
	Properties map[string]string
	created    time.Time
	// owner is the ID of the project that owns the image; empty for a public image.
	owner string
	// members are the projects with which the image is shared, by ID, with the status of each membership.
	members map[string]string
}

// SeenBy reports whether the caller may read the image.
func (i *Image) SeenBy(c api.Caller) bool {
	_, shared := i.members[c.Project]
	return i.owner == "" || i.owner == c.Project || i.Community || c.Admin || shared
}

// listedFor reports whether a list without the parameter visibility has the image.
func (i *Image) listedFor(c api.Caller) bool {
	switch {
	case i.Community:
		return i.owner == c.Project
	case i.owner == "" || i.owner == c.Project || c.Admin:
		return true
	}
	return i.members[c.Project] == "accepted"
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
	if i.SharedWith != nil {
		visibility = "shared"
	}
	if i.Community {
		visibility = "community"
	}
	o := wire.Object{
		{"id", i.ID}, {"name", i.Name}, {"status", i.State()}, {"visibility", visibility}, {"owner", wire.OrNull(i.owner)},
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
	rt.Add(api.ServiceImage, http.MethodPost, "/images", svc.createImage)
	rt.Add(api.ServiceImage, http.MethodGet, "/images/{id}", svc.showImage)
	rt.Add(api.ServiceImage, http.MethodDelete, "/images/{id}", svc.deleteImage)
	rt.Add(api.ServiceImage, http.MethodPost, "/images/{id}/members", svc.addMember)
	rt.Add(api.ServiceImage, http.MethodGet, "/images/{id}/members", svc.listMembers)
	rt.Add(api.ServiceImage, http.MethodPut, "/images/{id}/members/{member}", svc.setMember)
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
		listed := image.listedFor(q.Caller) || image.Community && query.Get("visibility") == "community"
		if !listed {
			continue
		}
		matches, refused := imageMatches(q, image.view())
		if refused.Status != 0 {
			return refused
		}
		if matches {
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

// imageMatches reports whether an image matches the query.
func imageMatches(q *api.Request, o wire.Object) (matches bool, refused api.Reply) {
	for key, wanted := range q.URL.Query() {
		if slices.Contains(imageParameters, key) {
			continue
		}
		if slices.Contains(operatorFields, key) {
			if wanted, refused = parseFilter(wanted[0]); refused.Status != 0 {
				return false, refused
			}
		}
		if !o.Has(key, wanted) {
			return false, api.Reply{}
		}
	}
	for _, t := range q.URL.Query()["tag"] {
		if !o.Has("tags", []string{t}) {
			return false, api.Reply{}
		}
	}
	return true, api.Reply{}
}

// operatorFields are the fields whose filters may begin with an operator.
var operatorFields = []string{"name", "id", "status", "container_format", "disk_format"}

// element matches an element of the list after the operator in: text in quotes, or text without a comma.
var element = regexp.MustCompile(`"([^"\\]*(?:\\.[^"\\]*)*)",?|([^,]+),?|,`)

// parseFilter returns the values that match a filter. As in Glance, text before a colon is an operator: `eq:a` matches a, and `in:a,"b,c"`
// matches a or b,c. Any other operator is refused.
func parseFilter(text string) (values []string, refused api.Reply) {
	operator, rest, found := strings.Cut(text, ":")
	if _, isTime := wire.ParseISO(text); !found || isTime {
		return []string{text}, api.Reply{}
	}
	switch operator {
	case "eq":
		return []string{rest}, api.Reply{}
	case "in":
		for _, m := range element.FindAllStringSubmatch(rest, -1) {
			values = append(values, m[1]+m[2])
		}
		return values, api.Reply{}
	}
	return nil, api.GlanceError(http.StatusBadRequest, "Unable to filter by unknown operator '"+operator+"'.")
}

func (svc *Service) seen(q *api.Request) (*Image, api.Reply) {
	i, known := svc.rows.Get(q.PathValue("id"))
	if !known || !i.SeenBy(q.Caller) {
		return nil, api.GlanceError(http.StatusNotFound, "No image found with ID "+q.PathValue("id"))
	}
	return i, api.Reply{}
}

func (svc *Service) showImage(q *api.Request) api.Reply {
	i, refused := svc.seen(q)
	if i == nil {
		return refused
	}
	return api.Reply{Status: http.StatusOK, Body: i.view()}
}

// createImage creates an image of the caller's project without data, whose status is queued.
func (svc *Service) createImage(q *api.Request) api.Reply {
	var in struct {
		Name            string `json:"name"`
		Visibility      string `json:"visibility"`
		DiskFormat      string `json:"disk_format"`
		ContainerFormat string `json:"container_format"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	i := &Image{ID: svc.kernel.NewID(), Name: in.Name, Status: "queued", Project: q.Caller.ProjectName, owner: q.Project(), created: q.Now}
	switch in.Visibility {
	case "", "shared":
		i.SharedWith = []string{}
	case "private":
	case "community":
		i.Community = true
	default:
		return api.GlanceError(http.StatusForbidden, "You are not authorized to complete publicize_image action.")
	}
	svc.rows.Put(i.ID, i)
	return api.Reply{Status: http.StatusCreated, Body: i.view()}
}

func (svc *Service) deleteImage(q *api.Request) api.Reply {
	i, refused := svc.seen(q)
	switch {
	case i == nil:
		return refused
	case i.owner != q.Project() && !q.Caller.Admin:
		return api.GlanceError(http.StatusForbidden, "You are not authorized to complete delete_image action.")
	}
	svc.rows.Remove(i.ID)
	return api.Empty(http.StatusNoContent)
}

func (i *Image) memberView(id string) wire.Object {
	return wire.Object{
		{"member_id", id}, {"image_id", i.ID}, {"status", i.members[id]}, {"created_at", wire.Zulu(i.created)},
		{"updated_at", wire.Zulu(i.created)}, {"schema", "/v2/schemas/member"},
	}
}

// addMember shares an image with a project, whose lists have the image once the project has accepted it.
func (svc *Service) addMember(q *api.Request) api.Reply {
	var in struct {
		Member string `json:"member"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	i, refused := svc.seen(q)
	switch {
	case i == nil:
		return refused
	case i.SharedWith == nil:
		return api.GlanceError(http.StatusForbidden, "Only shared images have members.")
	case i.owner != q.Project():
		return api.GlanceError(http.StatusForbidden, "You are not permitted to create image members for the image.")
	}
	i.share(in.Member, "pending")
	return api.Reply{Status: http.StatusOK, Body: i.memberView(in.Member)}
}

func (i *Image) share(project, status string) {
	if i.members == nil {
		i.members = map[string]string{}
	}
	i.members[project] = status
}

// listMembers answers 404 for an image that cannot have members.
func (svc *Service) listMembers(q *api.Request) api.Reply {
	i, refused := svc.seen(q)
	switch {
	case i == nil:
		return refused
	case i.SharedWith == nil:
		return api.GlanceError(http.StatusNotFound, "Only shared images have members.")
	}
	views := []wire.Object{}
	for _, id := range slices.Sorted(maps.Keys(i.members)) {
		views = append(views, i.memberView(id))
	}
	return api.Reply{Status: http.StatusOK, Body: wire.Object{{"members", views}, {"schema", "/v2/schemas/members"}}}
}

func (svc *Service) setMember(q *api.Request) api.Reply {
	var in struct {
		Status string `json:"status"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	i, refused := svc.seen(q)
	if i == nil {
		return refused
	}
	id := q.PathValue("member")
	if _, member := i.members[id]; !member || id != q.Project() {
		return api.GlanceError(http.StatusNotFound, id+" not found in the member list of the image "+i.ID+".")
	}
	i.share(id, in.Status)
	return api.Reply{Status: http.StatusOK, Body: i.memberView(id)}
}

// projects is the part of Keystone that Glance needs.
type projects interface {
	// ProjectID returns the ID of the project with the name or ID nameOrID. When there is none, it creates a project with
	// that name.
	ProjectID(nameOrID string) string
}

// Service is the image service of a cloud.
type Service struct {
	kernel   *kernel.Kernel
	projects projects
	rows     table.Table[*Image]
}

// Image returns an image by its ID.
func (svc *Service) Image(id string) (*Image, bool) { return svc.rows.Get(id) }

// AddImage adds an image and returns its ID.
func (svc *Service) AddImage(i Image) string {
	i.ID, i.created = svc.kernel.OrNew(i.ID), svc.kernel.Now()
	if i.Project != "" {
		i.owner = svc.projects.ProjectID(i.Project)
	}
	for _, project := range i.SharedWith {
		i.share(svc.projects.ProjectID(project), "accepted")
	}
	svc.rows.Put(i.ID, &i)
	return i.ID
}

// ReplaceImage removes an image, and adds one that differs only in its ID, as an operator does who uploads a newer build under the same
// name. It returns the ID of the new image; empty when there is no image with the ID.
func (svc *Service) ReplaceImage(id string) string {
	old, known := svc.rows.Get(id)
	if !known {
		return ""
	}
	next := *old
	next.ID, next.created = svc.kernel.NewID(), svc.kernel.Now()
	svc.rows.Remove(id)
	svc.rows.Put(next.ID, &next)
	return next.ID
}

// RemoveImage removes an image.
func (svc *Service) RemoveImage(id string) {
	svc.rows.Remove(id)
}

// New returns an image service without images.
func New(k *kernel.Kernel, p projects) *Service { return &Service{kernel: k, projects: p} }
