package openstack

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// negotiate determines the microversion of a compute call: the one in OpenStack-API-Version, or else in
// X-OpenStack-Nova-API-Version, or else 2.1. It answers 406 to a version that is not offered.
func (c *Cloud) negotiate(q *api.Request) (api.Reply, bool) {
	q.Version = api.Oldest
	asked := q.Header.Get("X-OpenStack-Nova-API-Version")
	for _, part := range strings.Split(q.Header.Get("OpenStack-API-Version"), ",") {
		if version, found := strings.CutPrefix(strings.TrimSpace(part), "compute "); found {
			asked = strings.TrimSpace(version)
		}
	}
	switch asked {
	case "":
		return api.Reply{}, false
	case "latest":
		q.Version = c.newest
		return api.Reply{}, false
	}
	v, valid := api.ParseMicroversion(asked)
	if !valid {
		return api.NovaError(http.StatusBadRequest, fmt.Sprintf("API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", asked)), true
	}
	if !v.AtLeast(api.Oldest.Major, api.Oldest.Minor) || !c.newest.AtLeast(v.Major, v.Minor) {
		text := fmt.Sprintf("Version %s is not supported by the API. Minimum is %s and maximum is %s.", v, api.Oldest, c.newest)
		return api.Reply{Status: http.StatusNotAcceptable, Body: wire.Object{{"computeFault", wire.Object{{"code", http.StatusNotAcceptable}, {"message", text}}}}}, true
	}
	q.Version = v
	return api.Reply{}, false
}

func (c *Cloud) versionRoutes(rt *api.Router) {
	rt.Open(api.ServiceIdentity, "/identity", "/", func(q *api.Request) api.Reply {
		return api.Reply{Status: http.StatusMultipleChoices, Body: wire.Object{{"versions", wire.Object{{"values", []wire.Object{keystoneVersion(q)}}}}}}
	})
	rt.Open(api.ServiceIdentity, "/identity/v3", "/v3", func(q *api.Request) api.Reply { return api.Ok("version", keystoneVersion(q)) })
	rt.Open(api.ServiceCompute, "/compute", "/", func(q *api.Request) api.Reply {
		old := version{id: "v2.0", status: "SUPPORTED", path: "/compute/v2/"}
		return api.Ok("versions", []wire.Object{old.object(q), c.novaVersion(q)})
	})
	rt.Open(api.ServiceCompute, "/compute/v2.1", "/v2.1", func(q *api.Request) api.Reply { return api.Ok("version", c.novaVersion(q)) })
	rt.Open(api.ServiceNetwork, "/network", "/", func(q *api.Request) api.Reply {
		v := version{id: "v2.0", status: "CURRENT", path: "/network/v2.0/"}
		return api.Ok("versions", []wire.Object{v.object(q)[:2].And("links", v.links(q))})
	})
	rt.Open(api.ServiceImage, "/image", "/", func(q *api.Request) api.Reply {
		v := version{id: "v2.15", status: "CURRENT", path: "/image/v2/"}
		list := []wire.Object{v.object(q)[:2].And("links", v.links(q))}
		return api.Reply{Status: http.StatusMultipleChoices, Body: wire.Object{{"versions", list}}}
	})
	volume := func(status int) func(*api.Request) api.Reply {
		return func(q *api.Request) api.Reply {
			v := version{id: "v3.0", status: "CURRENT", path: "/volume/v3/", oldest: "3.0", newest: "3.70"}
			return api.Reply{Status: status, Body: wire.Object{{"versions", []wire.Object{v.object(q)}}}}
		}
	}
	rt.Open(api.ServiceVolume, "/volume", "/", volume(http.StatusMultipleChoices))
	rt.Open(api.ServiceVolume, "/volume/v3", "/v3", volume(http.StatusOK))
}

type version struct{ id, status, path, oldest, newest string }

func (v version) object(q *api.Request) wire.Object {
	return wire.Object{
		{"id", v.id}, {"status", v.status}, {"version", v.newest}, {"min_version", v.oldest},
		{"updated", "2013-07-23T11:33:21Z"}, {"links", v.links(q)},
	}
}

func (v version) links(q *api.Request) []wire.Object {
	return []wire.Object{{{"rel", "self"}, {"href", q.Base + v.path}}}
}

func keystoneVersion(q *api.Request) wire.Object {
	v := version{id: "v3.14", status: "stable", path: "/identity/v3/"}
	return wire.Object{
		{"id", v.id}, {"status", v.status}, {"updated", "2020-04-07T00:00:00Z"}, {"links", v.links(q)},
		{"media-types", []wire.Object{{{"base", "application/json"}, {"type", "application/vnd.openstack.identity-v3+json"}}}},
	}
}

func (c *Cloud) novaVersion(q *api.Request) wire.Object {
	v := version{id: "v2.1", status: "CURRENT", path: "/compute/v2.1/", oldest: api.Oldest.String(), newest: c.newest.String()}
	return v.object(q)
}
