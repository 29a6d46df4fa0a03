package openstack

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
)

func (svc *nova) routes(rt *router) {
	n := serviceCompute
	rt.add(n, http.MethodPost, "/servers", svc.createServer)
	rt.add(n, http.MethodGet, "/servers", svc.listServersBrief)
	rt.add(n, http.MethodGet, "/servers/detail", svc.listServersDetail)
	one := func(method, path string, handle func(*request, *server) reply) {
		rt.add(n, method, path, func(q *request) reply {
			s, known := svc.servers.get(q.PathValue("id"))
			if !known || s.project != q.project() || s.state == deleted {
				return q.refuse(http.StatusNotFound, "Instance %s could not be found.", q.PathValue("id"))
			}
			return handle(q, s)
		})
	}
	one(http.MethodGet, "/servers/{id}", svc.showServer)
	one(http.MethodPut, "/servers/{id}", svc.updateServer)
	one(http.MethodDelete, "/servers/{id}", svc.deleteServer)
	one(http.MethodPost, "/servers/{id}/action", svc.actOnServer)
	one(http.MethodGet, "/servers/{id}/ips", func(_ *request, s *server) reply { return ok("addresses", s.addresses) })
	one(http.MethodGet, "/servers/{id}/metadata", func(_ *request, s *server) reply {
		return ok("metadata", metadataView(s.metadata))
	})
	one(http.MethodPost, "/servers/{id}/metadata", svc.mergeMetadata)
	one(http.MethodPut, "/servers/{id}/metadata", svc.replaceMetadata)
	one(http.MethodGet, "/servers/{id}/metadata/{key}", svc.showMetadatum)
	one(http.MethodPut, "/servers/{id}/metadata/{key}", svc.setMetadatum)
	one(http.MethodDelete, "/servers/{id}/metadata/{key}", svc.deleteMetadatum)
	one(http.MethodGet, "/servers/{id}/tags", func(_ *request, s *server) reply {
		return ok("tags", append([]string{}, s.tags...))
	})
	one(http.MethodPut, "/servers/{id}/tags", svc.replaceServerTags)
	one(http.MethodGet, "/servers/{id}/os-volume_attachments", svc.listAttachments)
	one(http.MethodGet, "/servers/{id}/os-interface", svc.listInterfaces)
}

func (svc *nova) showServer(q *request, s *server) reply {
	if svc.unreachable(s) {
		if !q.version.atLeast(2, 69) {
			return q.refuse(http.StatusInternalServerError, "Unexpected API Error. The cell of the instance cannot be reached.")
		}
		return ok("server", q.unknownView(s))
	}
	if broken, down := svc.withoutNetwork(q); down {
		return broken
	}
	return ok("server", q.view(s, false))
}

func (svc *nova) updateServer(q *request, s *server) reply {
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
	svc.alter(s, q.now, func() {
		set(&s.name, in.Server.Name)
		set(&s.description, in.Server.Description)
	})
	return ok("server", q.view(s, false))
}

func (svc *nova) deleteServer(q *request, s *server) reply {
	if s.locked {
		return q.refuse(http.StatusConflict, "Instance %s is locked", s.id)
	}
	svc.startDelete(s, q.now)
	return empty(http.StatusNoContent)
}

// actOnServer carries out one action, the only key of the body.
func (svc *nova) actOnServer(q *request, s *server) reply {
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
		return act(svc, q, s, argument)
	}
	return reply{}
}

var actions = map[string]func(*nova, *request, *server, json.RawMessage) reply{
	"os-getConsoleOutput": (*nova).consoleOutput,
	"forceDelete": func(svc *nova, q *request, s *server, _ json.RawMessage) reply {
		svc.startDelete(s, q.now)
		if s.task == "deleting" && s.state != deleted {
			svc.remove(s, q.now)
		}
		return empty(http.StatusAccepted)
	},
	"os-stop":  power(active, stopped, "stop"),
	"os-start": power(stopped, active, "start"),
	"reboot":   power(active, active, "reboot"),
	"lock":     lock(true),
	"unlock":   lock(false),
}

func power(from, to, verb string) func(*nova, *request, *server, json.RawMessage) reply {
	return func(svc *nova, q *request, s *server, _ json.RawMessage) reply {
		if s.state != from || s.task != "" {
			return q.refuse(http.StatusConflict, "Cannot '%s' instance %s while it is in vm_state %s", verb, s.id, s.state)
		}
		svc.alter(s, q.now, func() { s.state = to })
		return empty(http.StatusAccepted)
	}
}

func lock(on bool) func(*nova, *request, *server, json.RawMessage) reply {
	return func(svc *nova, q *request, s *server, _ json.RawMessage) reply {
		svc.alter(s, q.now, func() { s.locked = on })
		return empty(http.StatusAccepted)
	}
}

// consoleOutput gives the last lines, as many as were asked for.
func (svc *nova) consoleOutput(q *request, s *server, argument json.RawMessage) reply {
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

func (svc *nova) mergeMetadata(q *request, s *server) reply {
	var in metadataBody
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	next := maps.Clone(s.metadata)
	if next == nil {
		next = map[string]string{}
	}
	maps.Copy(next, in.Metadata)
	return svc.setMetadata(q, s, next)
}

func (svc *nova) replaceMetadata(q *request, s *server) reply {
	var in metadataBody
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	return svc.setMetadata(q, s, in.Metadata)
}

func (svc *nova) setMetadata(q *request, s *server, next map[string]string) reply {
	for key, value := range next {
		if !metadataKey.MatchString(key) || len(value) > 255 {
			return q.refuse(http.StatusBadRequest, "Invalid input for field/attribute metadata. Value: {...}. '%.64s' is not valid", key)
		}
	}
	if len(next) > 128 {
		return q.refuse(http.StatusForbidden, "Maximum number of metadata items exceeds 128")
	}
	svc.alter(s, q.now, func() { s.metadata = next })
	return ok("metadata", metadataView(next))
}

func (svc *nova) showMetadatum(q *request, s *server) reply {
	key := q.PathValue("key")
	value, known := s.metadata[key]
	if !known {
		return q.refuse(http.StatusNotFound, "Metadata item was not found")
	}
	return ok("meta", object{{key, value}})
}

func (svc *nova) setMetadatum(q *request, s *server) reply {
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
	if r := svc.setMetadata(q, s, next); r.status != http.StatusOK {
		return r
	}
	return ok("meta", object{{key, value}})
}

func (svc *nova) deleteMetadatum(q *request, s *server) reply {
	key := q.PathValue("key")
	if _, known := s.metadata[key]; !known {
		return q.refuse(http.StatusNotFound, "Metadata item was not found")
	}
	next := maps.Clone(s.metadata)
	delete(next, key)
	svc.alter(s, q.now, func() { s.metadata = next })
	return empty(http.StatusNoContent)
}

func (svc *nova) replaceServerTags(q *request, s *server) reply {
	if !q.version.atLeast(2, 26) {
		return notFoundPage()
	}
	var in struct {
		Tags []string `json:"tags"`
	}
	if bad, decoded := q.decode(&in); !decoded {
		return bad
	}
	svc.alter(s, q.now, func() { s.tags = in.Tags })
	return ok("tags", in.Tags)
}

func (svc *nova) listAttachments(q *request, s *server) reply {
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

func (svc *nova) listInterfaces(_ *request, s *server) reply {
	list := make([]object, 0, len(s.nics))
	for _, p := range svc.boundPorts(s) {
		ips, _ := p.view().get("fixed_ips")
		list = append(list, object{{"port_id", p.id}, {"net_id", p.network}, {"mac_addr", p.mac}, {"port_state", p.status}, {"fixed_ips", ips}})
	}
	return ok("interfaceAttachments", list)
}
