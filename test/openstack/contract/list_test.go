package contract

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

var listRows = []row{
	{"the detailed list of servers at microversion 2.1 has every field that drover's inventory reads", nothing, func(b *bench) {
		id := b.boot(wish{fields: doc{"metadata": doc{"machine-uid": "m"}}})
		a := b.want(b.user.get(compute, "/servers/detail"), http.StatusOK)
		if _, err := http.ParseTime(a.header.Get("Date")); err != nil {
			b.Errorf("Date is %q", a.header.Get("Date"))
		}
		r := b.rowOf(a, id)
		for field, want := range map[string]any{
			"status": "ACTIVE", "OS-EXT-STS:task_state": nil, "metadata.machine-uid": "m", "addresses." + b.network + ".0.OS-EXT-IPS:type": "fixed",
		} {
			b.same(field, r.at(field), want)
		}
		for _, field := range []string{"name", "hostId", "OS-EXT-AZ:availability_zone"} {
			if r.word(field) == "" {
				b.Errorf("%s is %v", field, r.at(field))
			}
		}
		for _, field := range []string{"created", "updated"} {
			if _, err := time.Parse("2006-01-02T15:04:05Z", r.word(field)); err != nil {
				b.Errorf("%s is %q", field, r.word(field))
			}
		}
	}},
	{"lists of servers begin with the newest, and a full page links to the next page even if the next page is empty", nothing, func(b *bench) {
		tag := b.name()
		first := b.boot(wish{fields: doc{"name": tag + "-first"}})
		b.nextSecond(b.user.get(compute, "/servers/"+first).word("server.created"))
		second := b.boot(wish{fields: doc{"name": tag + "-second"}})
		var seen []string
		path := "/servers/detail?limit=1&name=" + tag
		for pages := 0; path != "" && pages < 5; pages++ {
			a := b.want(b.user.get(compute, path), http.StatusOK)
			for _, r := range a.rows("servers") {
				seen = append(seen, r["id"].(string))
			}
			path = ""
			if len(a.rows("servers")) > 0 {
				b.same("rel", a.word("servers_links.0.rel"), "next")
				next, err := url.Parse(a.word("servers_links.0.href"))
				if err != nil || next.Query().Get("marker") != seen[len(seen)-1] {
					b.Fatalf("next is %q", a.word("servers_links.0.href"))
				}
				path = "/servers/detail?" + next.RawQuery
			}
		}
		b.same("the pages", seen, []string{second, first})
	}},
	{"a list with an unknown marker is refused with 400, and a deleted server still works as a marker", nothing, func(b *bench) {
		b.want(b.user.get(compute, "/servers/detail?marker="+nowhere), http.StatusBadRequest, "marker ["+nowhere+"] not found")
		id := b.boot(wish{})
		b.remove(id)
		b.want(b.user.get(compute, "/servers/detail?marker="+id), http.StatusOK)
	}},
	{"a list with changes-since shows a deleted server as DELETED, without metadata, tags and addresses", nothing, deletedRow},
	{"a list with changes-since leaves out servers that did not change, and compares times in whole seconds", nothing, func(b *bench) {
		id := b.boot(wish{})
		updated, err := time.Parse(time.RFC3339, b.user.get(compute, "/servers/"+id).word("server.updated"))
		if err != nil {
			b.Fatal(err)
		}
		for offset, there := range map[time.Duration]bool{-time.Minute: true, 0: true, time.Second: false, time.Hour: false} {
			since := updated.Add(offset).UTC().Format(time.RFC3339)
			a := b.want(b.user.get(compute, "/servers/detail?changes-since="+since), http.StatusOK)
			b.same("shown since "+offset.String()+" after its last change", strings.Contains(a.text, id), there)
		}
		b.want(b.user.get(compute, "/servers/detail?changes-since=yesterday"), http.StatusBadRequest, "changes-since")
	}},
	{"a list that is filtered by tags never shows a deleted server", nothing, func(b *bench) {
		tag := b.name()
		id := b.want(b.server(wish{version: "2.52", fields: doc{"tags": []string{tag}}}), http.StatusAccepted).word("server.id")
		b.status(id, "ACTIVE")
		path := "/servers/detail?tags=" + tag + "&changes-since=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		b.same("while it lives", len(b.want(b.user.get(compute, path, at("2.26")), http.StatusOK).rows("servers")), 1)
		b.remove(id)
		b.same("when it is gone", len(b.want(b.user.get(compute, path, at("2.26")), http.StatusOK).rows("servers")), 0)
	}},
	{"a list with changes-since shows a server that the scheduler put into ERROR, and after its deletion as DELETED", nothing, func(b *bench) {
		since := "/servers/detail?changes-since=" + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
		id := b.want(b.server(wish{fields: doc{"flavorRef": b.flavorID(b.impossible)}}), http.StatusAccepted).word("server.id")
		b.status(id, "ERROR")
		b.same("status", b.rowOf(b.want(b.user.get(compute, since), http.StatusOK), id).word("status"), "ERROR")
		b.remove(id)
		b.same("status", b.rowOf(b.want(b.user.get(compute, since), http.StatusOK), id).word("status"), "DELETED")
	}},
	{"the filter by name is a regular expression that may match any part of the name", nothing, func(b *bench) {
		name := b.name()
		id := b.want(b.server(wish{fields: doc{"name": name}}), http.StatusAccepted).word("server.id")
		for expression, there := range map[string]bool{name: true, name[3:]: true, "^" + name + "$": true, "^" + name[3:]: false, name + "x": false} {
			a := b.want(b.user.get(compute, "/servers?name="+url.QueryEscape(expression)), http.StatusOK)
			b.same(expression, strings.Contains(a.text, id), there)
		}
		b.status(id, "ACTIVE")
	}},
	{"accessIPv4 and accessIPv6 of a server are empty until they are set, and are then in lists", nothing, func(b *bench) {
		id := b.boot(wish{})
		b.same("accessIPv4", b.rowOf(b.want(b.user.get(compute, "/servers/detail"), http.StatusOK), id).at("accessIPv4"), "")
		b.want(b.user.do(http.MethodPut, compute, "/servers/"+id, doc{"server": doc{"accessIPv4": "192.0.2.7", "accessIPv6": "2001:db8::7"}}), http.StatusOK)
		r := b.rowOf(b.want(b.user.get(compute, "/servers/detail"), http.StatusOK), id)
		b.same("accessIPv4", r.at("accessIPv4"), "192.0.2.7")
		b.same("accessIPv6", r.at("accessIPv6"), "2001:db8::7")
	}},
	{"a list with all_tenants or with status DELETED is refused with 403 for a user who is not an administrator", nothing, func(b *bench) {
		b.want(b.user.get(compute, "/servers?all_tenants=1"), http.StatusForbidden)
		b.want(b.user.get(compute, "/servers?status=DELETED"), http.StatusForbidden, "Only administrators may list deleted instances")
	}},
}

// rowOf returns the row of a server in a list.
func (b *bench) rowOf(a answer, id string) answer {
	b.Helper()
	for _, r := range a.rows("servers") {
		if r["id"] == id {
			return answer{body: r}
		}
	}
	b.Fatalf("server %s is not in the list", id)
	return answer{}
}

func deletedRow(b *bench) {
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	id := b.want(b.server(wish{version: "2.52", fields: doc{"tags": []string{"t"}, "metadata": doc{"machine-uid": "m"}}}), http.StatusAccepted).word("server.id")
	b.status(id, "ACTIVE")
	living := b.rowOf(b.user.get(compute, "/servers/detail"), id)
	b.remove(id)
	if strings.Contains(b.user.get(compute, "/servers/detail").text, id) {
		b.Error("a plain list shows it")
	}
	r := b.rowOf(b.want(b.user.get(compute, "/servers/detail?changes-since="+since, at("2.67")), http.StatusOK), id)
	for field, want := range map[string]any{
		"status": "DELETED", "OS-EXT-STS:vm_state": "deleted", "OS-EXT-STS:task_state": nil, "OS-EXT-STS:power_state": 0,
		"metadata": "map[]", "tags": "[]", "addresses": "map[]", "name": living.word("name"), "created": living.word("created"),
		"hostId": living.word("hostId"), "OS-EXT-AZ:availability_zone": living.word("OS-EXT-AZ:availability_zone"),
	} {
		b.same(field, r.at(field), want)
	}
	if r.word("updated") < living.word("updated") {
		b.Errorf("updated went from %s to %s", living.word("updated"), r.word("updated"))
	}
	if r.word("OS-SRV-USG:terminated_at") == "" {
		b.Error("it was never terminated")
	}
}
