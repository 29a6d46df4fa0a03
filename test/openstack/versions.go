package openstack

import (
	"fmt"
	"net/http"
	"strings"
)

// negotiate settles the microversion of a compute call: OpenStack-API-Version before X-OpenStack-Nova-API-Version,
// else 2.1. One that is not offered is refused with 406.
func (c *Cloud) negotiate(q *request) (reply, bool) {
	q.version = oldest
	asked := q.Header.Get("X-OpenStack-Nova-API-Version")
	for _, part := range strings.Split(q.Header.Get("OpenStack-API-Version"), ",") {
		if version, found := strings.CutPrefix(strings.TrimSpace(part), "compute "); found {
			asked = strings.TrimSpace(version)
		}
	}
	switch asked {
	case "":
		return reply{}, false
	case "latest":
		q.version = c.newest
		return reply{}, false
	}
	v, valid := parseMicroversion(asked)
	if !valid {
		return novaError(http.StatusBadRequest, fmt.Sprintf("API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", asked)), true
	}
	if !v.atLeast(oldest.major, oldest.minor) || !c.newest.atLeast(v.major, v.minor) {
		text := fmt.Sprintf("Version %s is not supported by the API. Minimum is %s and maximum is %s.", v, oldest, c.newest)
		return reply{status: http.StatusNotAcceptable, body: object{{"computeFault", object{{"code", http.StatusNotAcceptable}, {"message", text}}}}}, true
	}
	q.version = v
	return reply{}, false
}

func (c *Cloud) versionRoutes(rt *router) {
	rt.open(serviceIdentity, "/identity", "/", func(q *request) reply {
		return reply{status: http.StatusMultipleChoices, body: object{{"versions", object{{"values", []object{keystoneVersion(q)}}}}}}
	})
	rt.open(serviceIdentity, "/identity/v3", "/v3", func(q *request) reply { return ok("version", keystoneVersion(q)) })
	rt.open(serviceCompute, "/compute", "/", func(q *request) reply {
		old := version{id: "v2.0", status: "SUPPORTED", path: "/compute/v2/"}
		return ok("versions", []object{old.object(q), c.novaVersion(q)})
	})
	rt.open(serviceCompute, "/compute/v2.1", "/v2.1", func(q *request) reply { return ok("version", c.novaVersion(q)) })
	rt.open(serviceNetwork, "/network", "/", func(q *request) reply {
		v := version{id: "v2.0", status: "CURRENT", path: "/network/v2.0/"}
		return ok("versions", []object{v.object(q)[:2].and("links", v.links(q))})
	})
	rt.open(serviceImage, "/image", "/", func(q *request) reply {
		v := version{id: "v2.15", status: "CURRENT", path: "/image/v2/"}
		list := []object{v.object(q)[:2].and("links", v.links(q))}
		return reply{status: http.StatusMultipleChoices, body: object{{"versions", list}}}
	})
	volume := func(status int) func(*request) reply {
		return func(q *request) reply {
			v := version{id: "v3.0", status: "CURRENT", path: "/volume/v3/", oldest: "3.0", newest: "3.70"}
			return reply{status: status, body: object{{"versions", []object{v.object(q)}}}}
		}
	}
	rt.open(serviceVolume, "/volume", "/", volume(http.StatusMultipleChoices))
	rt.open(serviceVolume, "/volume/v3", "/v3", volume(http.StatusOK))
}

type version struct{ id, status, path, oldest, newest string }

func (v version) object(q *request) object {
	return object{
		{"id", v.id}, {"status", v.status}, {"version", v.newest}, {"min_version", v.oldest},
		{"updated", "2013-07-23T11:33:21Z"}, {"links", v.links(q)},
	}
}

func (v version) links(q *request) []object {
	return []object{{{"rel", "self"}, {"href", q.base + v.path}}}
}

func keystoneVersion(q *request) object {
	v := version{id: "v3.14", status: "stable", path: "/identity/v3/"}
	return object{
		{"id", v.id}, {"status", v.status}, {"updated", "2020-04-07T00:00:00Z"}, {"links", v.links(q)},
		{"media-types", []object{{{"base", "application/json"}, {"type", "application/vnd.openstack.identity-v3+json"}}}},
	}
}

func (c *Cloud) novaVersion(q *request) object {
	v := version{id: "v2.1", status: "CURRENT", path: "/compute/v2.1/", oldest: oldest.String(), newest: c.newest.String()}
	return v.object(q)
}
