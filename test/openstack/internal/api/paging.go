package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// paging are the query parameters that are not filters.
var paging = []string{"fields", "limit", "marker", "sort_key", "sort_dir", "page_reverse", "tags", "tags-any", "not-tags", "not-tags-any"}

// Page applies the filters, paging and field selection of the query to a Neutron list. With a limit it sorts the rows by ID,
// because a marker needs an order. It answers 404 to an unknown marker. It answers 400 to a filter by an unknown field;
// sample is a row with all known fields.
func (q *Request) Page(key string, list []wire.Object, sample wire.Object) Reply {
	query := q.URL.Query()
	for name, wanted := range query {
		if slices.Contains(paging, name) {
			continue
		}
		if _, known := sample.Get(name); !known {
			return q.Refuse(http.StatusBadRequest, "['%s'] is invalid attribute for filtering", name)
		}
		list = slices.DeleteFunc(list, func(o wire.Object) bool { return !o.Has(name, wanted) })
	}
	list = slices.DeleteFunc(list, func(o wire.Object) bool { return !q.Tagged(o) })
	body := wire.Object{{key, list}}
	if limit := query.Get("limit"); limit != "" {
		rows, more, found := q.cut(list, limit)
		if !found {
			kind := strings.TrimSuffix(key, "s")
			return NeutronError(http.StatusNotFound, strings.ToUpper(kind[:1])+kind[1:]+"NotFound", "%s %s could not be found", kind, query.Get("marker"))
		}
		list = rows
		if body = (wire.Object{{key, list}}); more {
			body = append(body, wire.Member{key + "_links", []wire.Object{{{"rel", "next"}, {"href", q.next(list)}}}})
		}
	}
	if fields := query["fields"]; len(fields) > 0 {
		for i, o := range list {
			list[i] = o.Pick(fields)
		}
	}
	if list == nil {
		body[0].Value = []wire.Object{}
	}
	return Reply{Status: http.StatusOK, Body: body}
}

func (q *Request) cut(list []wire.Object, limit string) (rows []wire.Object, more, found bool) {
	slices.SortFunc(list, func(a, b wire.Object) int { return strings.Compare(a[0].Value.(string), b[0].Value.(string)) })
	n := 0
	_, _ = fmt.Sscan(limit, &n)
	if marker := q.URL.Query().Get("marker"); marker != "" {
		at := slices.IndexFunc(list, func(o wire.Object) bool { return o[0].Value == marker })
		if at < 0 {
			return nil, false, false
		}
		list = list[at+1:]
	}
	if n > 0 && len(list) >= n {
		return list[:n], true, true
	}
	return list, false, true
}

// next returns the URL of the page after this one.
func (q *Request) next(list []wire.Object) string {
	u := *q.URL
	query := u.Query()
	query.Set("marker", list[len(list)-1][0].Value.(string))
	return q.Base + u.Path + "?" + query.Encode()
}
