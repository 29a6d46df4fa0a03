package catalog

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var imageKind = kind{"image", fault.CodeImageNotFound, client.Image, "images", "images"}

// Image is an image of Glance, with MinDisk in GiB. Architecture is empty when the image has no such property.
type Image struct {
	resource
	Status       string `json:"status"`
	MinDisk      int    `json:"min_disk"`
	Architecture string `json:"architecture"`
}

// image returns the active image with that name or ID. It ignores other images, because two images have the same name while one
// replaces the other.
func (c *Catalog) image(ctx context.Context, name string) (Image, error) {
	return lookup(c.cache, imageKind.key(name), func() (Image, error) {
		all, err := byNameOrID[Image](ctx, c.session, imageKind, name)
		if err == nil && len(all) == 0 && client.LooksLikeID(name) {
			all, err = c.unlistedImage(ctx, name)
		}
		if err != nil {
			return Image{}, err
		}
		w := c.wanted(ctx, imageKind, name)
		found := active(all)
		if len(found) == 0 {
			return Image{}, w.missing(c.imageNames(ctx))
		}
		return pick(w, found)
	})
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
