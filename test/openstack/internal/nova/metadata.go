package nova

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// MetadataHandler returns the metadata service, for a listener of the caller. A request names its server in the header
// X-Instance-ID, which Neutron's metadata proxy sets. A request for an unknown server is answered with 404.
func (svc *Service) MetadataHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var s *server
		var key *inventory.KeyPair
		svc.kernel.Do(func() {
			found, known := svc.servers.Get(r.Header.Get("X-Instance-ID"))
			if known && found.state != deleted {
				snapshot := *found
				s = &snapshot
				key, _ = svc.Inventory.KeyPair(s.user, s.keyName)
			}
		})
		if s == nil || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		serveMetadata(w, r, s, key)
	})
}

func serveMetadata(w http.ResponseWriter, r *http.Request, s *server, key *inventory.KeyPair) {
	path := strings.Trim(r.URL.Path, "/")
	if path == "openstack" {
		_, _ = w.Write([]byte("2018-08-27\nlatest\n"))
		return
	}
	parts := strings.Split(path, "/")
	if len(parts) < 2 || parts[0] != "openstack" {
		http.NotFound(w, r)
		return
	}
	switch strings.Join(parts[2:], "/") {
	case "":
		_, _ = w.Write([]byte("meta_data.json\nuser_data\n"))
	case "user_data":
		if len(s.userData) == 0 {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(s.userData)
	case "meta_data.json":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(wire.Encode(nil, s.metaData(key)))
	default:
		http.NotFound(w, r)
	}
}

func (s *server) metaData(key *inventory.KeyPair) wire.Object {
	keys, public := []wire.Object{}, wire.Object{}
	if key != nil {
		keys = append(keys, wire.Object{{"name", key.Name}, {"type", "ssh"}, {"data", key.PublicKey}})
		public = wire.Object{{key.Name, key.PublicKey}}
	}
	return wire.Object{
		{"uuid", s.id}, {"name", s.name}, {"hostname", s.hostname + ".novalocal"}, {"availability_zone", s.zoneNow()},
		{"project_id", s.project}, {"launch_index", 0}, {"meta", wire.MetadataView(s.metadata)}, {"keys", keys},
		{"public_keys", public}, {"devices", []wire.Object{}},
	}
}
