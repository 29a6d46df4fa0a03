package nova

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// maxPage is the maximum number of servers on a page of Nova's list.
const maxPage = 1000

// listing holds the parameters of a list of servers.
type listing struct {
	since   time.Time
	limit   int
	paged   bool
	marker  string
	asOf    time.Time
	filters []func(*server) bool
}

func (svc *Service) listServersBrief(q *api.Request) api.Reply {
	return svc.listServers(q, "/servers", func(s *server) wire.Encoded {
		return wire.Encode(nil, wire.Object{{"id", s.id}, {"name", s.name}, {"links", serverLinks(q.Base, s.id)}})
	})
}

func (svc *Service) listServersDetail(q *api.Request) api.Reply {
	shown := false
	list := svc.listServers(q, "/servers/detail", func(s *server) wire.Encoded {
		shown = true
		return s.row(q)
	})
	// Nova queries Neutron for the security groups of the servers on the page.
	if broken, down := svc.withoutNetwork(q); down && shown {
		return broken
	}
	return list
}

// listServers lists servers from the newest to the oldest. It includes deleted servers only with changes-since. A full page
// has a link to the next page, even if that page will be empty.
func (svc *Service) listServers(q *api.Request, path string, render func(*server) wire.Encoded) api.Reply {
	l, refused := svc.readListing(q)
	if refused.Status != 0 {
		return refused
	}
	rows := svc.servers.All()
	from := len(rows) - 1
	if l.marker != "" {
		m, known := svc.servers.Get(l.marker)
		if !known || m.project != q.Project() {
			return q.Refuse(http.StatusBadRequest, "marker [%s] not found", l.marker)
		}
		from = slices.Index(rows, m) - 1
	}
	list, last := []wire.Encoded{}, ""
	for i := from; i >= 0 && len(list) < l.limit; i-- {
		s, there := rows[i].asOf(l.asOf)
		if !there || s.project != q.Project() || !l.matches(s) {
			continue
		}
		switch partial := q.Version.AtLeast(2, 69) && l.whole(); {
		case !svc.unreachable(s):
			list, last = append(list, render(s)), s.id
		case partial:
			list, last = append(list, wire.Encode(nil, s.unknownView(q))), s.id
		}
	}
	body := wire.Object{{"servers", list}}
	if len(list) == l.limit {
		query := q.URL.Query()
		query.Set("marker", last)
		body = append(body, wire.Member{"servers_links", []wire.Object{{{"rel", "next"}, {"href", q.Base + "/compute/v2.1" + path + "?" + query.Encode()}}}})
	}
	return api.Reply{Status: http.StatusOK, Body: body}
}

// whole reports whether no parameter restricts the list. Only then does Nova add what it knows of servers in lost cells.
func (l *listing) whole() bool { return !l.paged && l.since.IsZero() && len(l.filters) == 0 }

func (svc *Service) unreachable(s *server) bool {
	return s.host != nil && slices.Contains(svc.lostCells, s.host.Cell)
}

// unknownView returns what is known of a server whose cell does not answer.
func (s *server) unknownView(q *api.Request) wire.Object {
	return wire.Object{
		{"id", s.id}, {"tenant_id", s.project}, {"created", wire.Zulu(s.created)}, {"status", "UNKNOWN"}, {"links", serverLinks(q.Base, s.id)},
	}
}

func (svc *Service) readListing(q *api.Request) (listing, api.Reply) {
	query := q.URL.Query()
	l := listing{limit: maxPage, marker: query.Get("marker"), asOf: q.Now.Add(-svc.listLag)}
	l.paged = query.Has("limit") || query.Has("marker")
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return l, q.Refuse(http.StatusBadRequest, "Invalid input for query parameters limit. Value: %s. '%s' does not match '^[0-9]*$'", text, text)
		}
		if n > 0 {
			l.limit = min(n, maxPage)
		}
	}
	if all := strings.ToLower(query.Get("all_tenants")); query.Has("all_tenants") && all != "0" && all != "false" {
		return l, q.Refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed.")
	}
	if text := query.Get("changes-since"); text != "" {
		since, valid := wire.ParseISO(text)
		if !valid {
			return l, q.Refuse(http.StatusBadRequest, "Invalid input for query parameters changes-since. Value: %s. '%s' is not a 'date-time'", text, text)
		}
		l.since = since
	}
	return l, l.readFilters(q)
}

// readFilters parses the filters. A name is a regular expression that may match anywhere, as in Nova.
func (l *listing) readFilters(q *api.Request) api.Reply {
	query := q.URL.Query()
	add := func(f func(*server) bool) { l.filters = append(l.filters, f) }
	if name := query.Get("name"); name != "" {
		expression, err := regexp.Compile("(?i)" + name)
		if err != nil {
			return q.Refuse(http.StatusBadRequest, "Invalid input for query parameters name. Value: %s. '%s' is not a 'regex'", name, name)
		}
		add(func(s *server) bool { return expression.MatchString(s.name) })
	}
	if wanted := query["status"]; len(wanted) > 0 {
		switch known := statusesAmong(wanted); {
		case slices.Contains(known, "DELETED"):
			return q.Refuse(http.StatusForbidden, "Only administrators may list deleted instances")
		case len(known) == 0 && q.Version.AtLeast(2, 38):
			return q.Refuse(http.StatusBadRequest, "Invalid status value")
		}
		add(func(s *server) bool {
			return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, s.status()) })
		})
	}
	readPlainFilters(q, add)
	return api.Reply{}
}

func readPlainFilters(q *api.Request, add func(func(*server) bool)) {
	query := q.URL.Query()
	if flavor := query.Get("flavor"); flavor != "" {
		add(func(s *server) bool { return s.flavor.ID == flavor })
	}
	if image := query.Get("image"); image != "" {
		add(func(s *server) bool { return s.image != nil && s.image.ID == image })
	}
	if zone := query.Get("availability_zone"); zone != "" && q.Version.AtLeast(2, 83) {
		add(func(s *server) bool { return s.zoneNow() == zone })
	}
	if q.Version.AtLeast(2, 26) && (query.Has("tags") || query.Has("tags-any") || query.Has("not-tags") || query.Has("not-tags-any")) {
		add(func(s *server) bool { return q.Tagged(wire.Object{{"tags", s.tags}}) })
	}
}

// statusesAmong returns the elements of wanted that are statuses of servers.
func statusesAmong(wanted []string) []string {
	var out []string
	for _, known := range append(slices.Collect(maps.Values(statuses)), otherStatuses...) {
		if slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, known) }) {
			out = append(out, known)
		}
	}
	return out
}

// otherStatuses are the statuses that no server of this cloud ever has.
var otherStatuses = []string{
	"HARD_REBOOT", "MIGRATING", "PASSWORD", "PAUSED", "REBOOT", "REBUILD", "RESCUE", "RESIZE", "REVERT_RESIZE", "SHELVED",
	"SHELVED_OFFLOADED", "SOFT_DELETED", "SUSPENDED", "UNKNOWN", "VERIFY_RESIZE",
}

// matches reports whether a server matches the list's parameters. It compares whole seconds, because Nova stores whole
// seconds.
func (l *listing) matches(s *server) bool {
	if l.since.IsZero() {
		if s.state == deleted {
			return false
		}
	} else if s.updated.Truncate(time.Second).Before(l.since.Truncate(time.Second)) {
		return false
	}
	for _, f := range l.filters {
		if !f(s) {
			return false
		}
	}
	return true
}
