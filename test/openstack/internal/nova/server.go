package nova

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// Routes adds the calls that Nova answers.
func (svc *Service) Routes(rt *api.Router) {
	n := api.ServiceCompute
	rt.Add(n, http.MethodPost, "/servers", svc.createServer)
	rt.Add(n, http.MethodGet, "/servers", svc.listServersBrief)
	rt.Add(n, http.MethodGet, "/servers/detail", svc.listServersDetail)
	one := func(method, path string, handle func(*api.Request, *server) api.Reply) {
		rt.Add(n, method, path, func(q *api.Request) api.Reply {
			s, known := svc.servers.Get(q.PathValue("id"))
			if !known || s.project != q.Project() || s.state == deleted {
				return q.Refuse(http.StatusNotFound, "Instance %s could not be found.", q.PathValue("id"))
			}
			return handle(q, s)
		})
	}
	one(http.MethodGet, "/servers/{id}", svc.showServer)
	one(http.MethodPut, "/servers/{id}", svc.updateServer)
	one(http.MethodDelete, "/servers/{id}", svc.deleteServer)
	one(http.MethodPost, "/servers/{id}/action", svc.actOnServer)
	one(http.MethodGet, "/servers/{id}/ips", func(_ *api.Request, s *server) api.Reply { return api.Ok("addresses", s.addresses) })
	one(http.MethodGet, "/servers/{id}/metadata", func(_ *api.Request, s *server) api.Reply {
		return api.Ok("metadata", wire.MetadataView(s.metadata))
	})
	one(http.MethodPost, "/servers/{id}/metadata", svc.mergeMetadata)
	one(http.MethodPut, "/servers/{id}/metadata", svc.replaceMetadata)
	one(http.MethodGet, "/servers/{id}/metadata/{key}", svc.showMetadatum)
	one(http.MethodPut, "/servers/{id}/metadata/{key}", svc.setMetadatum)
	one(http.MethodDelete, "/servers/{id}/metadata/{key}", svc.deleteMetadatum)
	one(http.MethodGet, "/servers/{id}/tags", func(_ *api.Request, s *server) api.Reply {
		return api.Ok("tags", append([]string{}, s.tags...))
	})
	one(http.MethodPut, "/servers/{id}/tags", svc.replaceServerTags)
	one(http.MethodGet, "/servers/{id}/os-volume_attachments", svc.listAttachments)
	one(http.MethodGet, "/servers/{id}/os-interface", svc.listInterfaces)
}

func (svc *Service) showServer(q *api.Request, s *server) api.Reply {
	if svc.unreachable(s) {
		if !q.Version.AtLeast(2, 69) {
			return q.Refuse(http.StatusInternalServerError, "Unexpected API Error. The cell of the instance cannot be reached.")
		}
		return api.Ok("server", s.unknownView(q))
	}
	if broken, down := svc.withoutNetwork(q); down {
		return broken
	}
	return api.Ok("server", s.view(q, false))
}

func (svc *Service) updateServer(q *api.Request, s *server) api.Reply {
	var in struct {
		Server struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			AccessIPv4  *string `json:"accessIPv4"`
			AccessIPv6  *string `json:"accessIPv6"`
			DiskConfig  *string `json:"OS-DCF:diskConfig"`
		} `json:"server"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	svc.alter(s, q.Now, func() {
		wire.Set(&s.name, in.Server.Name)
		wire.Set(&s.description, in.Server.Description)
		wire.Set(&s.accessIPv4, in.Server.AccessIPv4)
		wire.Set(&s.accessIPv6, in.Server.AccessIPv6)
	})
	return api.Ok("server", s.view(q, false))
}

func (svc *Service) deleteServer(q *api.Request, s *server) api.Reply {
	if s.locked {
		return q.Refuse(http.StatusConflict, "Instance %s is locked", s.id)
	}
	svc.startDelete(s, q.Now)
	return api.Empty(http.StatusNoContent)
}

// actOnServer carries out the action that is the only key of the body.
func (svc *Service) actOnServer(q *api.Request, s *server) api.Reply {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(q.Body, &in); err != nil || len(in) != 1 {
		return q.Refuse(http.StatusBadRequest, "Malformed request body")
	}
	if s.state == building && s.task == "scheduling" {
		// Nova sends an action to the server's cell. This server has no cell yet, so Nova does not find it.
		return q.Refuse(http.StatusNotFound, "Instance %s could not be found.", s.id)
	}
	for name, argument := range in {
		act, known := actions[name]
		if !known {
			return q.Refuse(http.StatusBadRequest, "There is no such action: %s", name)
		}
		return act(svc, q, s, argument)
	}
	return api.Reply{}
}

var actions = map[string]func(*Service, *api.Request, *server, json.RawMessage) api.Reply{
	"os-getConsoleOutput": (*Service).consoleOutput,
	"forceDelete": func(svc *Service, q *api.Request, s *server, _ json.RawMessage) api.Reply {
		svc.startDelete(s, q.Now)
		if s.task == "deleting" && s.state != deleted {
			svc.remove(s, q.Now)
		}
		return api.Empty(http.StatusAccepted)
	},
	"os-stop":  power(action{from: active, to: stopped, verb: "stop", task: "powering-off"}),
	"os-start": power(action{from: stopped, to: active, verb: "start", task: "powering-on"}),
	"reboot":   power(action{from: active, to: active, verb: "reboot", task: "rebooting"}),
	"lock":     lock(true),
	"unlock":   lock(false),
}

// action is a user's action that changes a server's vm_state. The change takes PowerTime, and until then the server's
// task_state is task.
type action struct{ from, to, verb, task string }

func power(a action) func(*Service, *api.Request, *server, json.RawMessage) api.Reply {
	return func(svc *Service, q *api.Request, s *server, _ json.RawMessage) api.Reply {
		switch {
		case s.locked:
			return q.Refuse(http.StatusConflict, "Instance %s is locked", s.id)
		case s.state != a.from:
			return q.Refuse(http.StatusConflict, "Cannot '%s' instance %s while it is in vm_state %s", a.verb, s.id, s.state)
		case s.task != "":
			return q.Refuse(http.StatusConflict, "Cannot '%s' instance %s while it is in task_state %s", a.verb, s.id, s.task)
		}
		svc.alter(s, q.Now, func() { s.task = a.task })
		svc.kernel.After(q.Now, svc.cfg.PowerTime, func(at time.Time) {
			if s.state == a.from && s.task == a.task && (s.host == nil || !s.host.Down) {
				svc.alter(s, at, func() { s.state, s.task = a.to, "" })
			}
		})
		return api.Empty(http.StatusAccepted)
	}
}

func lock(on bool) func(*Service, *api.Request, *server, json.RawMessage) api.Reply {
	return func(svc *Service, q *api.Request, s *server, _ json.RawMessage) api.Reply {
		svc.alter(s, q.Now, func() { s.locked = on })
		return api.Empty(http.StatusAccepted)
	}
}

// consoleOutput returns as many of the last lines as the request asks for.
func (svc *Service) consoleOutput(q *api.Request, s *server, argument json.RawMessage) api.Reply {
	var in struct {
		Length json.Number `json:"length"`
	}
	if len(argument) > 0 && json.Unmarshal(argument, &in) != nil {
		return q.Refuse(http.StatusBadRequest, "Invalid input for field/attribute os-getConsoleOutput.")
	}
	if s.launched.IsZero() {
		return q.Refuse(http.StatusConflict, "Instance %s is not ready", s.id)
	}
	text := s.console
	if n, err := in.Length.Int64(); err == nil && n >= 0 {
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		text = strings.Join(lines[max(0, len(lines)-int(n)):], "")
	}
	return api.Reply{Status: http.StatusOK, Body: wire.Object{{"output", text}}}
}

type metadataBody struct {
	Metadata map[string]string `json:"metadata"`
}

func (svc *Service) mergeMetadata(q *api.Request, s *server) api.Reply {
	var in metadataBody
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	next := maps.Clone(s.metadata)
	if next == nil {
		next = map[string]string{}
	}
	maps.Copy(next, in.Metadata)
	return svc.setMetadata(q, s, next)
}

func (svc *Service) replaceMetadata(q *api.Request, s *server) api.Reply {
	var in metadataBody
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	return svc.setMetadata(q, s, in.Metadata)
}

func (svc *Service) setMetadata(q *api.Request, s *server, next map[string]string) api.Reply {
	for key, value := range next {
		if !metadataKey.MatchString(key) || len(value) > 255 {
			return q.Refuse(http.StatusBadRequest, "Invalid input for field/attribute metadata. Value: {...}. '%.64s' is not valid", key)
		}
	}
	if len(next) > 128 {
		return q.Refuse(http.StatusForbidden, "Maximum number of metadata items exceeds 128")
	}
	svc.alter(s, q.Now, func() { s.metadata = next })
	return api.Ok("metadata", wire.MetadataView(next))
}

func (svc *Service) showMetadatum(q *api.Request, s *server) api.Reply {
	key := q.PathValue("key")
	value, known := s.metadata[key]
	if !known {
		return q.Refuse(http.StatusNotFound, "Metadata item was not found")
	}
	return api.Ok("meta", wire.Object{{key, value}})
}

func (svc *Service) setMetadatum(q *api.Request, s *server) api.Reply {
	var in struct {
		Meta map[string]string `json:"meta"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	key := q.PathValue("key")
	value, named := in.Meta[key]
	if !named || len(in.Meta) != 1 {
		return q.Refuse(http.StatusBadRequest, "Request body and URI mismatch")
	}
	next := map[string]string{}
	maps.Copy(next, s.metadata)
	next[key] = value
	if r := svc.setMetadata(q, s, next); r.Status != http.StatusOK {
		return r
	}
	return api.Ok("meta", wire.Object{{key, value}})
}

func (svc *Service) deleteMetadatum(q *api.Request, s *server) api.Reply {
	key := q.PathValue("key")
	if _, known := s.metadata[key]; !known {
		return q.Refuse(http.StatusNotFound, "Metadata item was not found")
	}
	next := maps.Clone(s.metadata)
	delete(next, key)
	svc.alter(s, q.Now, func() { s.metadata = next })
	return api.Empty(http.StatusNoContent)
}

func (svc *Service) replaceServerTags(q *api.Request, s *server) api.Reply {
	if !q.Version.AtLeast(2, 26) {
		return api.NotFoundPage()
	}
	var in struct {
		Tags []string `json:"tags"`
	}
	if bad, decoded := q.Decode(&in); !decoded {
		return bad
	}
	svc.alter(s, q.Now, func() { s.tags = in.Tags })
	return api.Ok("tags", in.Tags)
}

func (svc *Service) listAttachments(q *api.Request, s *server) api.Reply {
	list := make([]wire.Object, 0, len(s.volumes))
	for _, v := range s.volumes {
		o := wire.Object{{"id", v.Volume}, {"volumeId", v.Volume}, {"serverId", s.id}, {"device", v.Device}}
		if q.Version.AtLeast(2, 70) {
			o = append(o, wire.Member{"tag", nil})
		}
		if q.Version.AtLeast(2, 79) {
			o = append(o, wire.Member{"delete_on_termination", v.DeleteOnTermination})
		}
		list = append(list, o)
	}
	return api.Ok("volumeAttachments", list)
}

func (svc *Service) listInterfaces(_ *api.Request, s *server) api.Reply {
	list := make([]wire.Object, 0, len(s.nics))
	for _, p := range svc.boundPorts(s) {
		ips, _ := p.View().Get("fixed_ips")
		list = append(list, wire.Object{{"port_id", p.ID}, {"net_id", p.Network}, {"mac_addr", p.Mac}, {"port_state", p.Status}, {"fixed_ips", ips}})
	}
	return api.Ok("interfaceAttachments", list)
}
