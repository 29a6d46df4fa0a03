package nova

import (
	"slices"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/cinder"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/neutron"
	"github.com/drover-project/drover/test/openstack/internal/table"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// The states of a server, in Nova's words for vm_state; the API shows them in capitals as status, building as BUILD
// and stopped as SHUTOFF.
const (
	building = "building"
	active   = "active"
	stopped  = "stopped"
	failed   = "error"
	deleted  = "deleted"
)

var statuses = map[string]string{building: "BUILD", active: "ACTIVE", stopped: "SHUTOFF", failed: "ERROR", deleted: "DELETED"}

// Config holds how long the steps of a server's life take, and what varies among clouds.
type Config struct {
	// BootTime and ScheduleTime are from the accepted POST to ACTIVE and to the choice of a host, ClaimTime from there until the
	// host shows, NetworkTime from there until the ports are bound, DeleteTime from the accepted DELETE to the end.
	BootTime, ScheduleTime, ClaimTime, NetworkTime, DeleteTime time.Duration
	// FaultsInLists: lists show the fault of a server that no host was found for.
	FaultsInLists bool
	// FirstOfTwoFails: of two servers that were accepted on the same port, the first one fails.
	FirstOfTwoFails bool
	// BaseURL returns the address of the cloud's API.
	BaseURL func() string
}

// Service is the compute service of a cloud.
type Service struct {
	kernel *kernel.Kernel
	Neighbours
	cfg Config

	servers table.Table[*server] // those that are deleted too, until they are archived
	deleted int                  // how many those are

	// listLag is how old the servers are that lists show. lostCells are the cells that cannot be reached.
	listLag   time.Duration
	lostCells []string

	onBoot []func(Server)
	onGone []func(string)
}

// New returns a compute service without servers.
func New(k *kernel.Kernel, of Neighbours, cfg Config) *Service {
	return &Service{kernel: k, Neighbours: of, cfg: cfg}
}

// OnBoot has f called whenever a server becomes ACTIVE.
func (svc *Service) OnBoot(f func(Server)) { svc.onBoot = append(svc.onBoot, f) }

// OnGone has f called whenever a server that had become ACTIVE is gone.
func (svc *Service) OnGone(f func(serverID string)) { svc.onGone = append(svc.onGone, f) }

// SetListLag makes lists show servers as they were that long ago; a GET by ID stays exact.
func (svc *Service) SetListLag(d time.Duration) { svc.listLag = d }

// LoseCell makes a cell unreachable.
func (svc *Service) LoseCell(name string) { svc.lostCells = append(svc.lostCells, name) }

// RestoreCells makes all cells reachable.
func (svc *Service) RestoreCells() { svc.lostCells = nil }

// nic is a network interface of a server.
type nic struct {
	network, port string
	fixed         string
	// made: Nova made the port and deletes it with the server.
	made bool
}

type serverFault struct {
	code    int
	created time.Time
	message string
}

// server is one server. Maps and slices in it are replaced, never changed, so that a copy of the struct is a snapshot.
type server struct {
	id, name, project, user        string
	created, updated               time.Time
	launched, terminated           time.Time
	flavor                         *inventory.Flavor
	image                          *glance.Image
	state, task                    string
	zone, keyName, description     string
	hostname, adminPass, userData  string
	host                           *inventory.Hypervisor
	metadata                       map[string]string
	tags                           []string
	configDrive, locked, announced bool
	// unlisted: lists leave out its fault, since it is kept where servers without a host are (cell0).
	unlisted                bool
	diskConfig, reservation string
	group                   *inventory.ServerGroup
	// unclaimed: its host is chosen, and only the zone shows. plugged: its ports are bound and its addresses show.
	unclaimed, plugged bool
	// contested: another server was made on one of its ports, too.
	contested bool
	fault     *serverFault
	nics      []nic
	groups    []string
	devices   []blockDevice
	volumes   []cinder.Attachment
	addresses wire.Object
	console   string
	rendered  *rendering

	// changed is when it took this shape; past are older ones, kept as long as lists lag.
	changed time.Time
	past    []server
}

func (s *server) status() string { return statuses[s.state] }

// edit changes a server and remembers what it was, as far as lagging lists need it. The lock is held.
func (svc *Service) edit(s *server, at time.Time, change func()) {
	if lag := svc.listLag; lag > 0 {
		old := *s
		old.past = nil
		s.past = append(s.past, old)
		first := slices.IndexFunc(s.past, func(p server) bool { return p.changed.After(at.Add(-lag)) })
		if first > 1 {
			s.past = slices.Clone(s.past[first-1:])
		}
	} else {
		s.past = nil
	}
	s.changed, s.rendered = at, nil
	change()
}

// alter is edit for what moves `updated`: everything but addresses.
func (svc *Service) alter(s *server, at time.Time, change func()) {
	svc.edit(s, at, func() {
		change()
		s.updated = at
	})
}

// asOf gives a server as it was; false when it was not there yet.
func (s *server) asOf(t time.Time) (*server, bool) {
	if s.created.After(t) {
		return nil, false
	}
	if !s.changed.After(t) {
		return s, true
	}
	for i := len(s.past) - 1; i >= 0; i-- {
		if !s.past[i].changed.After(t) {
			return &s.past[i], true
		}
	}
	if len(s.past) > 0 {
		return &s.past[0], true
	}
	return s, true
}

// networkInfoDelay is how long Nova takes to learn of an address that changed in Neutron.
const networkInfoDelay = 500 * time.Millisecond

// AddressesChanged has Nova look at a server's ports again, a little later. `updated` does not move: a list by
// changes-since does not show it.
func (svc *Service) AddressesChanged(serverID string) {
	s, known := svc.servers.Get(serverID)
	if !known || s.state == deleted {
		return
	}
	svc.kernel.Plan(svc.kernel.Now().Add(networkInfoDelay), func(at time.Time) {
		if s.state != deleted && s.plugged {
			svc.edit(s, at, func() { s.addresses = svc.addressesOf(s) })
		}
	})
}

// addressesOf reads fixed and floating addresses, by network name.
func (svc *Service) addressesOf(s *server) wire.Object {
	out := wire.Object{}
	for _, p := range svc.boundPorts(s) {
		name := svc.Network.NetworkName(p.Network)
		var list []wire.Object
		for _, f := range p.FixedIPs {
			list = append(list, addressView(f, p.Mac, "fixed"))
		}
		for _, f := range svc.Network.FloatingAddresses(p.Id) {
			list = append(list, addressView(f, p.Mac, "floating"))
		}
		if i := slices.IndexFunc(out, func(m wire.Member) bool { return m.Key == name }); i >= 0 {
			out[i].Value = append(out[i].Value.([]wire.Object), list...)
			continue
		}
		out = append(out, wire.Member{name, list})
	}
	return out
}

func addressView(f neutron.FixedIP, mac, kind string) wire.Object {
	version := 4
	if f.Address.Is6() {
		version = 6
	}
	return wire.Object{
		{"version", version}, {"addr", f.Address.String()}, {"OS-EXT-IPS:type", kind}, {"OS-EXT-IPS-MAC:mac_addr", mac},
	}
}

// Server is a server as the cloud's user sees it from within Go.
type Server struct {
	ID, Name, Project string
	// Status is as in the API: BUILD, ACTIVE, SHUTOFF, ERROR.
	Status, Flavor, Zone, Host string
	VCPUs                      int
	// RAM is in MiB, Disk in GiB.
	RAM, Disk          int
	Metadata           map[string]string
	Tags               []string
	FixedIPs, Floating []string
	// Ports are those that are bound to it.
	Ports              []string
	SecurityGroups     []string
	ServerGroup, Image string
	KeyName            string
	ConfigDrive        bool
	Volumes            []string
	Created, Launched  time.Time
	// UserData is decoded.
	UserData []byte
}

func (svc *Service) export(s *server) Server {
	out := Server{
		ID: s.id, Name: s.name, Project: svc.Projects.ProjectName(s.project), Status: s.status(), Flavor: s.flavor.Name, Zone: s.zone,
		VCPUs: s.flavor.VCPUs, RAM: s.flavor.RAM, Disk: s.flavor.Disk, Metadata: s.metadata, Tags: s.tags,
		SecurityGroups: s.groups, KeyName: s.keyName, ConfigDrive: s.configDrive, Created: s.created, Launched: s.launched,
		UserData: s.decodedUserData(),
	}
	if s.image != nil {
		out.Image = s.image.Name
	}
	if s.group != nil {
		out.ServerGroup = s.group.Id
	}
	if s.host != nil {
		out.Zone, out.Host = s.host.Zone, s.host.Name
	}
	for _, v := range s.volumes {
		out.Volumes = append(out.Volumes, v.Volume)
	}
	for _, p := range svc.boundPorts(s) {
		out.Ports = append(out.Ports, p.Id)
		for _, f := range p.FixedIPs {
			out.FixedIPs = append(out.FixedIPs, f.Address.String())
		}
		for _, f := range svc.Network.FloatingAddresses(p.Id) {
			out.Floating = append(out.Floating, f.Address.String())
		}
	}
	return out
}

// ServerCount returns how many servers there are. It costs far less than Servers.
func (svc *Service) ServerCount() int {
	n := 0
	for _, s := range svc.servers.All() {
		if s.state != deleted {
			n++
		}
	}
	return n
}

// Servers gives all that are there, oldest first.
func (svc *Service) Servers() []Server {
	var out []Server
	for _, s := range svc.servers.All() {
		if s.state != deleted {
			out = append(out, svc.export(s))
		}
	}
	return out
}

// Server gives one by its ID; false when it is not there.
func (svc *Service) Server(id string) (Server, bool) {
	s, known := svc.servers.Get(id)
	if !known || s.state == deleted {
		return Server{}, false
	}
	return svc.export(s), true
}

// ServerIDs returns the IDs of all servers that are there, oldest first.
func (svc *Service) ServerIDs() []string {
	var ids []string
	for _, s := range svc.servers.All() {
		if s.state != deleted {
			ids = append(ids, s.id)
		}
	}
	return ids
}
