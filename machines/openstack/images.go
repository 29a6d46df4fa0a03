package openstack

import (
	"context"
	"slices"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
)

// image considers active images only: one that is being replaced has the same name for a while.
func (c *catalog) image(ctx context.Context, name string) (image, error) {
	return lookup(c.cache, c.key("image", name), func() (image, error) {
		all, err := byNameOrID[image](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Image, Doing: "looking up image " + name}, Path: "images", Field: "images",
		}, name)
		if err == nil && len(all) == 0 && client.LooksLikeID(name) {
			all, err = c.unlistedImage(ctx, name)
		}
		if err != nil {
			return image{}, err
		}
		w := c.wanted(ctx, "image", name, fault.CodeImageNotFound)
		found := active(all)
		if len(found) == 0 {
			return image{}, w.missing(c.imageNames(ctx))
		}
		return pick(w, found)
	})
}

// unlistedImage reads one image by its ID. Lists leave out community images, and images that another project shares before
// this one has accepted them; servers can be made from both. It returns none for an ID that does not exist.
func (c *catalog) unlistedImage(ctx context.Context, id string) ([]image, error) {
	var got image
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
	return []image{got}, nil
}

// active returns the images that servers can be made from.
func active(all []image) []image {
	return slices.DeleteFunc(all, func(i image) bool { return i.Status != "active" && i.Status != "" })
}

// imageNames returns the names of the images that the project's list has, for the proposals of an error only: the list is
// kept for positiveTTL. It returns none when the list cannot be read.
func (c *catalog) imageNames(ctx context.Context) []string {
	names, err := lookup(c.cache, "images", func() ([]string, error) {
		all, err := client.List[image](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Image, Doing: "listing images"}, Path: "images", Field: "images",
		})
		return namesOf(active(all)), err
	})
	if err != nil {
		log.FromContext(ctx).V(1).Info("no names of images can be proposed", "error", err.Error())
	}
	return names
}
