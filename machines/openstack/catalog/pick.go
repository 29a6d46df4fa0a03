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

// resource has the fields that all APIs return for every named resource. Project is empty for kinds that belong to no project.
// Shared is nil for kinds whose list does not say whether another project shares the resource with this one.
type resource struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"project_id"`
	Shared  *bool  `json:"shared"`
}

// named is a resource with a name and an ID.
type named interface {
	named() resource
	// rank compares the resource with others of the same name, in lookups of a project.
	rank(project string) rank
}

func (t resource) named() resource { return t }

func (t resource) rank(project string) rank {
	switch {
	case t.Project == "" || t.Project == project:
		return own
	case t.Shared == nil || *t.Shared:
		return shared
	}
	return foreign
}

// rank describes how close a resource is to a project. When several resources have the name in a spec, only those with the lowest rank
// count: otherwise another customer of the cloud could make a name ambiguous by sharing a resource.
type rank int

const (
	// own is the rank of the project's own resources.
	own rank = iota
	// shared is the rank of the resources that the project may use and that belong to another project.
	shared
	// foreign is the rank of what only administrators see. Such a resource is found by its ID alone.
	foreign
)

// kind is a kind of resource that a spec can name.
type kind struct {
	// name is the name of the kind in messages.
	name string
	// notFound is the code of the error for a name that no resource has. It is also the prefix of the kind's keys in the cache.
	notFound fault.Code
	service  client.Service
	version  client.Version
	// path is the path of the list. field is the field of the response that holds the resources.
	path, field string
	// unfiltered is true when the list cannot be filtered by name.
	unfiltered bool
}

// key returns the cache key for a resource of this name.
func (k kind) key(name string) string { return string(k.notFound) + " " + name }

// listing returns the list request that looks up a name.
func (k kind) listing(name string) client.Listing {
	return client.Listing{Call: client.Call{Service: k.service, Version: k.version, Doing: "looking up " + k.name + " " + name}, Path: k.path, Field: k.field}
}

// wanted describes the resource to look up, and the project and region in which it is looked up.
type wanted struct {
	kind kind
	name string
	*client.Scope
}

// mostAlike is the maximum number of names that an error suggests.
const mostAlike = 3

// missing returns the error for a name that no resource has. It suggests similar names of existing resources. The argument there
// has the names of all existing resources.
func (w wanted) missing(there []string) *fault.Error {
	where := ""
	if w.Region != "" {
		where = " in region " + w.Region
	}
	hint := ""
	if alike := v1alpha1.Nearest(w.name, there, mostAlike); len(alike) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(alike, " or "))
	}
	return fault.New(fault.Invalid, w.kind.notFound, "%s %q: this project can see none with that name or ID%s%s", w.kind.name, w.name, where, hint)
}

// pick returns the resource with the wanted ID, or else the one with the wanted name. Of several resources with that name, only those with
// the lowest rank count.
func pick[T named](w wanted, all []T) (none T, err error) {
	var hits []T
	lowest := foreign
	for _, t := range all {
		switch r := t.rank(w.ProjectID); {
		case t.named().ID == w.name:
			return t, nil
		case t.named().Name != w.name || r > lowest:
		case r < lowest:
			hits, lowest = []T{t}, r
		default:
			hits = append(hits, t)
		}
	}
	ids := strings.Join(texts(hits, func(r resource) string { return r.ID }), ", ")
	switch {
	case len(hits) == 0:
		return none, w.missing(namesOf(all))
	case lowest == foreign:
		return none, fault.New(fault.Invalid, w.kind.notFound, "%s %q is in another project, which does not share it with this one; use its ID if it is meant: %s",
			w.kind.name, w.name, ids)
	case len(hits) == 1:
		return hits[0], nil
	}
	return none, fault.New(fault.Invalid, fault.CodeAmbiguousName, "%s %q is the name of %d resources; use one of their IDs: %s",
		w.kind.name, w.name, len(hits), ids)
}

// namesOf returns the names of resources, which need not be unique.
func namesOf[T named](all []T) []string {
	return texts(all, func(r resource) string { return r.Name })
}

func texts[T named](all []T, of func(resource) string) []string {
	out := make([]string, len(all))
	for i, t := range all {
		out[i] = of(t.named())
	}
	return out
}

// filter returns the value of a filter that matches this name only. Glance takes what is before a colon for an operator, such as in:, and
// refuses a filter whose operator it does not know.
func (k kind) filter(name string) string {
	if k.service == client.Image && strings.Contains(name, ":") {
		return "eq:" + name
	}
	return name
}

// list lists the resources with that name or, if the name looks like an ID, with that ID. The response may contain other
// resources as well, and has all of a kind that is not filtered; pick selects.
func list[T named](ctx context.Context, s *client.Session, k kind, name string) ([]T, error) {
	l := k.listing(name)
	if k.unfiltered {
		return client.List[T](ctx, s, l)
	}
	fields := []string{"name"}
	if client.LooksLikeID(name) {
		fields = []string{"id", "name"}
	}
	for _, field := range fields {
		l.Query = url.Values{field: {k.filter(name)}}
		all, err := client.List[T](ctx, s, l)
		if err != nil || len(all) > 0 {
			return all, err
		}
	}
	return nil, nil
}
