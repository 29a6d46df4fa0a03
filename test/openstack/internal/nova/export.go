package nova

import (
	"time"
)

// Server is a server in the form in which the simulation shows it to Go code.
type Server struct {
	ID, Name, Project string
	// Status has one of the values of the API: BUILD, ACTIVE, SHUTOFF, ERROR.
	Status, Flavor, Zone, Host string
	// HostID is the hostId that the API shows: the same for all servers of a project on one host.
	HostID string
	VCPUs  int
	// RAM is in MiB, Disk in GiB.
	RAM, Disk          int
	Metadata           map[string]string
	Tags               []string
	FixedIPs, Floating []string
	// Ports are the ports that are bound to the server.
	Ports              []string
	SecurityGroups     []string
	ServerGroup, Image string
	KeyName            string
	ConfigDrive        bool
	Volumes            []string
	Created, Launched  time.Time
	// UserData is the decoded user data.
	UserData []byte
}

func (svc *Service) export(s *server) Server {
	out := Server{
		ID: s.id, Name: s.name, Project: svc.Projects.ProjectName(s.project), Status: s.status(), Flavor: s.flavor.Name, Zone: s.zone,
		VCPUs: s.flavor.VCPUs, RAM: s.flavor.RAM, Disk: s.flavor.Disk, Metadata: s.metadata, Tags: s.tags,
		SecurityGroups: s.groups, KeyName: s.keyName, ConfigDrive: s.configDrive, Created: s.created, Launched: s.launched,
		UserData: s.userData,
	}
	if s.image != nil {
		out.Image = s.image.Name
	}
	if s.group != nil {
		out.ServerGroup = s.group.ID
	}
	if s.host != nil {
		out.Zone, out.Host, out.HostID = s.host.Zone, s.host.Name, s.hostID()
	}
	for _, v := range s.volumes {
		out.Volumes = append(out.Volumes, v.Volume)
	}
	for _, p := range svc.boundPorts(s) {
		out.Ports = append(out.Ports, p.ID)
		for _, f := range p.FixedIPs {
			out.FixedIPs = append(out.FixedIPs, f.Address.String())
		}
		for _, f := range svc.Network.FloatingAddresses(p.ID) {
			out.Floating = append(out.Floating, f.Address.String())
		}
	}
	return out
}

// ServerCount returns how many servers exist. It costs far less than Servers.
func (svc *Service) ServerCount() int {
	n := 0
	for _, s := range svc.servers.All() {
		if s.state != deleted {
			n++
		}
	}
	return n
}

// Servers returns all existing servers, oldest first.
func (svc *Service) Servers() []Server {
	var out []Server
	for _, s := range svc.servers.All() {
		if s.state != deleted {
			out = append(out, svc.export(s))
		}
	}
	return out
}

// Server returns a server by its ID; false when it does not exist.
func (svc *Service) Server(id string) (Server, bool) {
	s, known := svc.servers.Get(id)
	if !known || s.state == deleted {
		return Server{}, false
	}
	return svc.export(s), true
}

// ServerIDs returns the IDs of all existing servers, oldest first.
func (svc *Service) ServerIDs() []string {
	var ids []string
	for _, s := range svc.servers.All() {
		if s.state != deleted {
			ids = append(ids, s.id)
		}
	}
	return ids
}
