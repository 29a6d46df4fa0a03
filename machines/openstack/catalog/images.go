package catalog

import (
	"context"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var imageKind = kind{name: "image", notFound: fault.CodeImageNotFound, service: client.Image, path: "images", field: "images"}

// Image is an image of Glance, with MinDisk in GiB. Architecture is empty when the image has no such property.
type Image struct {
	resource
	Status       string `json:"status"`
	MinDisk      int    `json:"min_disk"`
	Architecture string `json:"architecture"`
	Owner        string `json:"owner"`
	Visibility   string `json:"visibility"`
}

func (i Image) rank(project string) rank {
	switch {
	case i.Owner == project:
		return own
	case i.Visibility == private:
		return foreign
	}
	return shared
}

// image returns the active image with that name or ID. It ignores other images, because two images have the same name while one
// replaces the other.
func (c *Catalog) image(ctx context.Context, name string) (Image, error) {
	return find(ctx, c, imageKind, name, func(w wanted, all []Image) (_ []Image, err error) {
		if len(all) == 0 && client.LooksLikeID(name) {
			if all, err = c.unlistedImage(ctx, name); err != nil {
				return nil, err
			}
		}
		all = active(all)
		if len(all) == 0 {
			return nil, w.missing(c.imageNames(ctx))
		}
		return all, c.hideUnshared(ctx, w, all)
	})
}

// The visibilities of images that belong to one project. Glance gives a new image the second one, before the image has any member.
const (
	private         = "private"
	sharedToMembers = "shared"
)

// hideUnshared sets the visibility private for images of the wanted name that other projects share, but not with this one. Only an
// administrator sees such images. Nothing is looked up for others, or when the project has an image of that name.
func (c *Catalog) hideUnshared(ctx context.Context, w wanted, all []Image) error {
	if !w.Admin || slices.ContainsFunc(all, func(i Image) bool { return i.Name == w.name && i.rank(w.ProjectID) == own }) {
		return nil
	}
	for n := range all {
		if all[n].Name != w.name || all[n].Visibility != sharedToMembers {
			continue
		}
		member, err := c.isMember(ctx, all[n].ID, w.ProjectID)
		if err != nil {
			return err
		}
		if !member {
			all[n].Visibility = private
		}
	}
	return nil
}

// isMember reports whether an image is shared with a project.
func (c *Catalog) isMember(ctx context.Context, id, project string) (bool, error) {
	members, err := client.List[member](ctx, c.session, client.Listing{
		Call: client.Call{Service: client.Image, Doing: "listing the projects with which image " + id + " is shared"},
		Path: "images/" + url.PathEscape(id) + "/members", Field: "members",
	})
	return slices.ContainsFunc(members, func(m member) bool { return m.Project == project }), err
}

// member is a project with which an image is shared.
type member struct {
	Project string `json:"member_id"`
}

// unlistedImage reads one image by its ID. Lists contain neither community images nor images of another project that this project
// has not accepted yet, but servers can be created from both kinds. It returns no image when the ID does not exist.
func (c *Catalog) unlistedImage(ctx context.Context, id string) ([]Image, error) {
	var got Image
	err := c.session.Do(ctx, client.Call{Service: client.Image, Doing: "looking up image " + id}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("images", id), &got, nil)
		return err
	})
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []Image{got}, nil
}

// active returns the images that servers can be created from.
func active(all []Image) []Image {
	return slices.DeleteFunc(all, func(i Image) bool { return i.Status != "active" && i.Status != "" })
}

// imageNames returns the names of the project's images. They serve only as suggestions in an error, so the list is cached for
// positiveTTL. It returns no names when the list cannot be read.
func (c *Catalog) imageNames(ctx context.Context) []string {
	names, err := lookup(c.cache, "images", func() ([]string, error) {
		all, err := client.List[Image](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Image, Doing: "listing images"}, Path: "images", Field: "images",
		})
		return namesOf(active(all)), err
	})
	if err != nil {
		log.FromContext(ctx).V(1).Info("Cannot list images to suggest a name", "error", err.Error())
	}
	return names
}
