package catalog

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// resource has the fields that all APIs return for every named resource.
type resource struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (t resource) named() resource { return t }

// named is a resource with a name and an ID.
type named interface{ named() resource }

// kind is a kind of resource that a spec can name.
type kind struct {
	// name is the name of the kind in messages and cache keys.
	name string
	// notFound is the code of the error for a name that no resource has.
	notFound fault.Code
	service  client.Service
	// path is the path of the list. field is the field of the response that holds the resources.
	path, field string
}

// key returns the cache key for a resource of this name.
func (k kind) key(name string) string { return k.name + " " + name }

// listing returns the list request that looks up a name.
func (k kind) listing(name string) client.Listing {
	return client.Listing{Call: client.Call{Service: k.service, Doing: "looking up " + k.name + " " + name}, Path: k.path, Field: k.field}
}

// wanted describes, in errors, the resource that was looked up. region is empty while it is not known.
type wanted struct {
	kind         kind
	name, region string
}

// mostAlike is the maximum number of names that an error suggests.
const mostAlike = 3

// missing returns the error for a name that no resource has. It suggests similar names of existing resources. The argument there
// has the names of all existing resources.
func (w wanted) missing(there []string) *fault.Error {
	where := ""
	if w.region != "" {
		where = " in region " + w.region
	}
	hint := ""
	if alike := v1alpha1.Nearest(w.name, there, mostAlike); len(alike) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(alike, " or "))
	}
	return fault.New(fault.Invalid, w.kind.notFound, "%s %q: this project can see none with that name or ID%s%s", w.kind.name, w.name, where, hint)
}

// pick returns the resource with the wanted ID, or else the one with the wanted name.
func pick[T named](w wanted, all []T) (T, error) {
	var hits []T
	var ids []string
	for _, t := range all {
		if t.named().ID == w.name {
			return t, nil
		}
		if t.named().Name == w.name {
			hits, ids = append(hits, t), append(ids, t.named().ID)
		}
	}
	var none T
	switch len(hits) {
	case 0:
		return none, w.missing(namesOf(all))
	case 1:
		return hits[0], nil
	}
	return none, fault.New(fault.Invalid, fault.CodeAmbiguousName, "%s %q is the name of %d resources; use one of their IDs: %s",
		w.kind.name, w.name, len(hits), strings.Join(ids, ", "))
}

// namesOf returns the names of resources, which need not be unique.
func namesOf[T named](all []T) []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.named().Name
	}
	return names
}

// byNameOrID lists the resources with that name or, if the name looks like an ID, with that ID. The response may contain other
// resources as well; pick selects.
func byNameOrID[T named](ctx context.Context, s *client.Session, k kind, name string) ([]T, error) {
	l := k.listing(name)
	fields := []string{"name"}
	if client.LooksLikeID(name) {
		fields = []string{"id", "name"}
	}
	for _, field := range fields {
		l.Query = url.Values{field: {name}}
		all, err := client.List[T](ctx, s, l)
		if err != nil || len(all) > 0 {
			return all, err
		}
	}
	return nil, nil
}

// unfiltered lists all resources of a kind. It is for kinds whose list cannot be filtered by name.
func unfiltered[T named](ctx context.Context, s *client.Session, k kind, name string) ([]T, error) {
	return client.List[T](ctx, s, k.listing(name))
}
