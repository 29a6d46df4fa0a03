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

// wanted describes for errors what is looked for.
type wanted struct {
	kind, name string
	code       fault.Code
	region     string
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
	return fault.New(fault.Invalid, w.code, "%s %q is neither the name nor the ID of one that this project can see%s%s", w.kind, w.name, where, hint)
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
		w.kind, w.name, len(hits), strings.Join(ids, ", "))
}

// namesOf returns the names of things, which need not be unique.
func namesOf[T named](all []T) []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.named().Name
	}
	return names
}

// byNameOrID asks by the name, which in most specs is one, and by the ID when it may be one. The answer may hold more
// than was asked for; pick decides.
func byNameOrID[T named](ctx context.Context, s *client.Session, l client.Listing, name string) ([]T, error) {
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
