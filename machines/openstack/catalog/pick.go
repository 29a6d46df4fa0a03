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

// thing is what all APIs return for everything that has a name.
type thing struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (t thing) named() thing { return t }

// named is anything with a name and an ID.
type named interface{ named() thing }

// kind is a kind of thing that a spec can name.
type kind struct {
	// name is the kind in messages and in the keys of the cache.
	name string
	// notFound is the code of the error about a name that nothing has.
	notFound fault.Code
	service  client.Service
	// path is that of the list, and field the one of its answer that holds the things.
	path, field string
}

// key returns the key of the cache for the thing with a name.
func (k kind) key(name string) string { return k.name + " " + name }

// listing returns the list in which a name is looked up.
func (k kind) listing(name string) client.Listing {
	return client.Listing{Call: client.Call{Service: k.service, Doing: "looking up " + k.name + " " + name}, Path: k.path, Field: k.field}
}

// wanted describes for errors what is looked for. region is empty while it is not known.
type wanted struct {
	kind         kind
	name, region string
}

// mostAlike is how many names an error proposes.
const mostAlike = 3

// missing returns the error for a name that nothing has. It proposes those of the given names that look like it.
func (w wanted) missing(there []string) *fault.Error {
	where := ""
	if w.region != "" {
		where = " in region " + w.region
	}
	hint := ""
	if alike := v1alpha1.Nearest(w.name, there, mostAlike); len(alike) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(alike, " or "))
	}
	return fault.New(fault.Invalid, w.kind.notFound, "%s %q is neither the name nor the ID of one that this project can see%s%s", w.kind.name, w.name, where, hint)
}

// pick finds the one with that ID, else the one with that name.
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
	return none, fault.New(fault.Invalid, fault.CodeAmbiguousName, "%s %q is the name of %d of them; give one of the IDs: %s",
		w.kind.name, w.name, len(hits), strings.Join(ids, ", "))
}

// namesOf returns the names of things, which need not be unique.
func namesOf[T named](all []T) []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.named().Name
	}
	return names
}

// byNameOrID lists what has the name, or the ID when the name looks like one. The answer may hold more than that; pick decides.
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

// unfiltered lists everything of a kind whose list cannot be filtered by name.
func unfiltered[T named](ctx context.Context, s *client.Session, k kind, name string) ([]T, error) {
	return client.List[T](ctx, s, k.listing(name))
}
