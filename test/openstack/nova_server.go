package openstack

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
)

func serverRoutes(rt *router) {
	n := serviceCompute
	rt.add(n, http.MethodPost, "/servers", createServer)
	rt.add(n, http.MethodGet, "/servers", listServersBrief)
	rt.add(n, http.MethodGet, "/servers/detail", listServersDetail)
	one := func(method, path string, handle func(*Cloud, *request, *server) reply) {
		rt.add(n, method, path, func(c *Cloud, q *request) reply {
			s, known := c.compute.servers.get(q.PathValue("id"))
			if !known || s.project != q.project() || s.state == deleted {
				return q.refuse(http.StatusNotFound, "Instance %s could not be found.", q.PathValue("id"))
			}
			return handle(c, q, s)
		})
	}
	one(http.MethodGet, "/servers/{id}", showServer)
	one(http.MethodPut, "/servers/{id}", updateServer)
	one(http.MethodDelete, "/servers/{id}", deleteServer)
	one(http.MethodPost, "/servers/{id}/action", actOnServer)
	one(http.MethodGet, "/servers/{id}/ips", func(_ *Cloud, _ *request, s *server) reply { return ok("addresses", s.addresses) })
	one(http.MethodGet, "/servers/{id}/metadata", func(_ *Cloud, _ *request, s *server) reply {
		return ok("metadata", metadataView(s.metadata))
	})
	one(http.MethodPost, "/servers/{id}/metadata", mergeMetadata)
	one(http.MethodPut, "/servers/{id}/metadata", replaceMetadata)
	one(http.MethodGet, "/servers/{id}/metadata/{key}", showMetadatum)
	one(http.MethodPut, "/servers/{id}/metadata/{key}", setMetadatum)
	one(http.MethodDelete, "/servers/{id}/metadata/{key}", deleteMetadatum)
	one(http.MethodGet, "/servers/{id}/tags", func(_ *Cloud, _ *request, s *server) reply {
		return ok("tags", append([]string{}, s.tags...))
	})
	one(http.MethodPut, "/servers/{id}/tags", replaceServerTags)
	one(http.MethodGet, "/servers/{id}/os-volume_attachments", listAttachments)
	one(http.MethodGet, "/servers/{id}/os-interface", listInterfaces)
}

func showServer(c *Cloud, q *request, s *server) reply {
	if c.unreachable(s) {
		if !q.version.atLeast(2, 69) {
			return q.refuse(http.StatusInternalServerError, "Unexpected API Error. The cell of the instance cannot be reached.")
		}
		return ok("server", q.unknownView(s))
	}
	if broken, down := c.withoutNetwork(q); down {
		return broken
	}
	return ok("server", q.view(s, false))
}

func updateServer(c *Cloud, q *request, s *server) reply {
	var in struct {
		Server struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			AccessIPv4  *string `json:"accessIPv4"`
			AccessIPv6  *string `json:"accessIPv6"`
			DiskConfig  *string `json:"OS-DCF:diskConfig"`
		} `json:"server"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	c.alter(s, q.now, func() {
		set(&s.name, in.Server.Name)
		set(&s.description, in.Server.Description)
	})
	return ok("server", q.view(s, false))
}

func deleteServer(c *Cloud, q *request, s *server) reply {
	if s.locked {
		return q.refuse(http.StatusConflict, "Instance %s is locked", s.id)
	}
	c.startDelete(s, q.now)
	return empty(http.StatusNoContent)
}

// actOnServer carries out one action, the only key of the body.
func actOnServer(c *Cloud, q *request, s *server) reply {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(q.body, &in); err != nil || len(in) != 1 {
		return q.refuse(http.StatusBadRequest, "Malformed request body")
	}
	if s.state == building && s.task == "scheduling" {
		// It has no cell yet, and an action is sent to a cell.
		return q.refuse(http.StatusNotFound, "Instance %s could not be found.", s.id)
	}
	for name, argument := range in {
		act, known := actions[name]
		if !known {
			return q.refuse(http.StatusBadRequest, "There is no such action: %s", name)
		}
		return act(c, q, s, argument)
	}
	return reply{}
}

var actions = map[string]func(*Cloud, *request, *server, json.RawMessage) reply{
	"os-getConsoleOutput": consoleOutput,
	"forceDelete": func(c *Cloud, q *request, s *server, _ json.RawMessage) reply {
		c.startDelete(s, q.now)
		if s.task == "deleting" && s.state != deleted {
			c.remove(s, q.now)
		}
		return empty(http.StatusAccepted)
	},
	"os-stop":  power(active, stopped, "stop"),
	"os-start": power(stopped, active, "start"),
	"reboot":   power(active, active, "reboot"),
	"lock":     lock(true),
	"unlock":   lock(false),
}

func power(from, to, verb string) func(*Cloud, *request, *server, json.RawMessage) reply {
	return func(c *Cloud, q *request, s *server, _ json.RawMessage) reply {
		if s.state != from || s.task != "" {
			return q.refuse(http.StatusConflict, "Cannot '%s' instance %s while it is in vm_state %s", verb, s.id, s.state)
		}
		c.alter(s, q.now, func() { s.state = to })
		return empty(http.StatusAccepted)
	}
}

func lock(on bool) func(*Cloud, *request, *server, json.RawMessage) reply {
	return func(c *Cloud, q *request, s *server, _ json.RawMessage) reply {
		c.alter(s, q.now, func() { s.locked = on })
		return empty(http.StatusAccepted)
	}
}

// consoleOutput gives the last lines, as many as were asked for.
func consoleOutput(_ *Cloud, q *request, s *server, argument json.RawMessage) reply {
	var in struct {
		Length json.Number `json:"length"`
	}
	if len(argument) > 0 && json.Unmarshal(argument, &in) != nil {
		return q.refuse(http.StatusBadRequest, "Invalid input for field/attribute os-getConsoleOutput.")
	}
	if s.launched.IsZero() {
		return q.refuse(http.StatusConflict, "Instance %s is not ready", s.id)
	}
	text := s.console
	if n, err := in.Length.Int64(); err == nil && n >= 0 {
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		text = strings.Join(lines[max(0, len(lines)-int(n)):], "")
	}
	return reply{status: http.StatusOK, body: object{{"output", text}}}
}

type metadataBody struct {
	Metadata map[string]string `json:"metadata"`
}

func mergeMetadata(c *Cloud, q *request, s *server) reply {
	var in metadataBody
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	next := maps.Clone(s.metadata)
	if next == nil {
		next = map[string]string{}
	}
	maps.Copy(next, in.Metadata)
	return c.setMetadata(q, s, next)
}

func replaceMetadata(c *Cloud, q *request, s *server) reply {
	var in metadataBody
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	return c.setMetadata(q, s, in.Metadata)
}

func (c *Cloud) setMetadata(q *request, s *server, next map[string]string) reply {
	for key, value := range next {
		if !metadataKey.MatchString(key) || len(value) > 255 {
			return q.refuse(http.StatusBadRequest, "Invalid input for field/attribute metadata. Value: {...}. '%.64s' is not valid", key)
		}
	}
	if len(next) > 128 {
		return q.refuse(http.StatusForbidden, "Maximum number of metadata items exceeds 128")
	}
	c.alter(s, q.now, func() { s.metadata = next })
	return ok("metadata", metadataView(next))
}

func showMetadatum(_ *Cloud, q *request, s *server) reply {
	key := q.PathValue("key")
	value, known := s.metadata[key]
	if !known {
		return q.refuse(http.StatusNotFound, "Metadata item was not found")
	}
	return ok("meta", object{{key, value}})
}

func setMetadatum(c *Cloud, q *request, s *server) reply {
	var in struct {
		Meta map[string]string `json:"meta"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	key := q.PathValue("key")
	value, named := in.Meta[key]
	if !named || len(in.Meta) != 1 {
		return q.refuse(http.StatusBadRequest, "Request body and URI mismatch")
	}
	next := map[string]string{}
	maps.Copy(next, s.metadata)
	next[key] = value
	if r := c.setMetadata(q, s, next); r.status != http.StatusOK {
		return r
	}
	return ok("meta", object{{key, value}})
}

func deleteMetadatum(c *Cloud, q *request, s *server) reply {
	key := q.PathValue("key")
	if _, known := s.metadata[key]; !known {
		return q.refuse(http.StatusNotFound, "Metadata item was not found")
	}
	next := maps.Clone(s.metadata)
	delete(next, key)
	c.alter(s, q.now, func() { s.metadata = next })
	return empty(http.StatusNoContent)
}

func replaceServerTags(c *Cloud, q *request, s *server) reply {
	if !q.version.atLeast(2, 26) {
		return notFoundPage()
	}
	var in struct {
		Tags []string `json:"tags"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	c.alter(s, q.now, func() { s.tags = in.Tags })
	return ok("tags", in.Tags)
}

func listAttachments(_ *Cloud, q *request, s *server) reply {
	list := make([]object, 0, len(s.volumes))
	for _, v := range s.volumes {
		o := object{{"id", v.volume}, {"volumeId", v.volume}, {"serverId", s.id}, {"device", v.device}}
		if q.version.atLeast(2, 70) {
			o = append(o, member{"tag", nil})
		}
		if q.version.atLeast(2, 79) {
			o = append(o, member{"delete_on_termination", v.deleteOnTermination})
		}
		list = append(list, o)
	}
	return ok("volumeAttachments", list)
}

func listInterfaces(c *Cloud, _ *request, s *server) reply {
	list := make([]object, 0, len(s.nics))
	for _, p := range c.boundPorts(s) {
		ips, _ := p.view().get("fixed_ips")
		list = append(list, object{{"port_id", p.id}, {"net_id", p.network}, {"mac_addr", p.mac}, {"port_state", p.status}, {"fixed_ips", ips}})
	}
	return ok("interfaceAttachments", list)
}
