// Package nova is the compute service of the simulated cloud: the life of servers, their API, and the metadata service. It
// knows the other services through the interfaces in neighbours.go.
package nova

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/cinder"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/neutron"
	"github.com/drover-project/drover/test/openstack/internal/table"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// The states of a server, as Nova's vm_state. The API shows a status in capitals instead, which often is another word.
const (
	building = "building"
	active   = "active"
	stopped  = "stopped"
	failed   = "error"
	deleted  = "deleted"
)

var statuses = map[string]string{
	building: "BUILD", active: "ACTIVE", stopped: "SHUTOFF", failed: "ERROR", deleted: "DELETED",
	"paused": "PAUSED", "suspended": "SUSPENDED", "resized": "VERIFY_RESIZE", "rescued": "RESCUE", "shelved": "SHELVED",
	"shelved_offloaded": "SHELVED_OFFLOADED",
}

// taskStatuses are the statuses of an active or stopped server while it has a task. They replace the usual status.
var taskStatuses = map[string]string{
	"rebooting": "REBOOT", "rebooting_hard": "HARD_REBOOT", "updating_password": "PASSWORD", "rebuilding": "REBUILD", "migrating": "MIGRATING",
	"resize_prep": "RESIZE", "resize_migrating": "RESIZE", "resize_finish": "RESIZE",
}

// Config holds how long the steps of a server's life take, and the settings that vary among clouds.
type Config struct {
	// BootTime and ScheduleTime are the times from the accepted POST to ACTIVE and to the choice of a host. ClaimTime is the
	// time from that choice until the host is shown, and NetworkTime the time from then until the ports are bound. DeleteTime is
	// the time from the accepted DELETE until the server no longer exists. PowerTime is the time from the accepted action until
	// the server is started or stopped.
	BootTime, ScheduleTime, ClaimTime, NetworkTime, DeleteTime, PowerTime time.Duration
	// FaultsInLists makes lists show the fault of a server for which no host was found.
	FaultsInLists bool
	// FirstOfTwoFails makes the first of two servers that were accepted on the same port fail.
	FirstOfTwoFails bool
	// FailedBuildsLeaveVolumes makes the volumes of a server in ERROR outlive the server.
	FailedBuildsLeaveVolumes bool
	// BaseURL returns the address of the cloud's API.
	BaseURL func() string
}

// Service is the compute service of a cloud.
type Service struct {
	kernel *kernel.Kernel
	Neighbours
	cfg Config

	servers table.Table[*server] // including deleted servers, until they are archived
	deleted int                  // the number of deleted servers

	// listLag is how old the state of the servers in lists is. lostCells are the cells that cannot be reached.
	listLag   time.Duration
	lostCells []string

	onBoot []func(Server)
	onGone []func(string)
}

// New returns a compute service without servers.
func New(k *kernel.Kernel, of Neighbours, cfg Config) *Service {
	return &Service{kernel: k, Neighbours: of, cfg: cfg}
}

// OnBoot registers f to be called whenever a server becomes ACTIVE.
func (svc *Service) OnBoot(f func(Server)) { svc.onBoot = append(svc.onBoot, f) }

// OnGone registers f to be called whenever a server that had become ACTIVE no longer exists.
func (svc *Service) OnGone(f func(serverID string)) { svc.onGone = append(svc.onGone, f) }

// SetListLag makes lists show servers as they were d ago. A GET by ID still shows the current state.
func (svc *Service) SetListLag(d time.Duration) { svc.listLag = d }

// LoseCell makes a cell unreachable.
func (svc *Service) LoseCell(name string) { svc.lostCells = append(svc.lostCells, name) }

// RestoreCells makes all cells reachable.
func (svc *Service) RestoreCells() { svc.lostCells = nil }

// nic is a network interface of a server.
type nic struct {
	network, port string
	fixed         string
	// made is true when Nova created the port and deletes it with the server.
	made bool
}

type serverFault struct {
	code    int
	created time.Time
	message string
}

// server is one server. Its maps and slices are replaced, never changed, so that a copy of the struct is a snapshot.
type server struct {
	id, name, project, user        string
	created, updated               time.Time
	launched, terminated           time.Time
	flavor                         *inventory.Flavor
	image                          *glance.Image
	state, task                    string
	zone, keyName, description     string
	hostname, adminPass            string
	accessIPv4, accessIPv6         string
	userData                       []byte
	host                           *inventory.Hypervisor
	metadata                       map[string]string
	tags                           []string
	configDrive, locked, announced bool
	// unlisted is true when lists leave out the server's fault. Nova stores the fault of a server without a host in a separate cell
	// (cell0).
	unlisted                bool
	diskConfig, reservation string
	group                   *inventory.ServerGroup
	// unclaimed is true while the server's host is chosen and the API shows only the host's zone, not the host. plugged is true
	// once the server's ports are bound and the API shows its addresses.
	unclaimed, plugged bool
	// contested is true when another server was also created on one of the server's ports.
	contested bool
	fault     *serverFault
	nics      []nic
	groups    []string
	devices   []blockDevice
	volumes   []cinder.Attachment
	addresses wire.Object
	console   string
	rendered  *rendering

	// changed is when the server last changed. past holds older versions of the server while lagging lists need them.
	changed time.Time
	past    []server
}

func (s *server) status() string {
	if word := taskStatuses[s.task]; word != "" && (s.state == active || s.state == stopped) {
		return word
	}
	return statuses[s.state]
}

// edit changes a server. It stores the older version as long as lagging lists need it. The caller holds the lock.
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

// alter changes a server as edit does, and also sets `updated`. Changes of addresses use edit, because Nova does not
// set `updated` then.
func (svc *Service) alter(s *server, at time.Time, change func()) {
	svc.edit(s, at, func() {
		change()
		s.updated = at
	})
}

// asOf returns the state of a server at an earlier time; false when it did not exist yet.
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

// networkInfoDelay is how long Nova takes to learn that an address has changed in Neutron.
const networkInfoDelay = 500 * time.Millisecond

// AddressesChanged makes Nova read the addresses of a server's ports again, a little later. `updated` does not change, so a list
// with changes-since does not show the server.
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

// addressesOf returns the fixed and floating addresses, by network name.
func (svc *Service) addressesOf(s *server) wire.Object {
	out := wire.Object{}
	for _, p := range svc.boundPorts(s) {
		name := svc.Network.NetworkName(p.Network)
		var list []wire.Object
		for _, f := range p.FixedIPs {
			list = append(list, addressView(f, p.Mac, "fixed"))
		}
		for _, f := range svc.Network.FloatingAddresses(p.ID) {
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

// withoutNetwork returns Nova's answer when it needs Neutron and Neutron is down. The caller holds the lock.
func (svc *Service) withoutNetwork(q *api.Request) (api.Reply, bool) {
	if !svc.Network.Down() {
		return api.Reply{}, false
	}
	return q.Refuse(http.StatusInternalServerError, "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the "+
		"Nova API log if possible.\n<class 'keystoneauth1.exceptions.connection.ConnectFailure'>"), true
}

type blockDevice struct {
	SourceType          string  `json:"source_type"`
	UUID                string  `json:"uuid"`
	BootIndex           *int    `json:"boot_index"`
	DeleteOnTermination bool    `json:"delete_on_termination"`
	DestinationType     string  `json:"destination_type"`
	GuestFormat         string  `json:"guest_format"`
	VolumeSize          int     `json:"volume_size"`
	DeviceType          string  `json:"device_type"`
	DiskBus             string  `json:"disk_bus"`
	VolumeType          *string `json:"volume_type"`
	Tag                 string  `json:"tag"`
}

// decodeUserData decodes base64 as Nova does: it ignores characters outside of the alphabet, and only the padding must be right.
func decodeUserData(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if strings.ContainsRune("+/=", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, text))
}

// userDataIn returns the user data in a request, decoded; nil when there is none.
func userDataIn(text *string) []byte {
	if text == nil {
		return nil
	}
	raw, err := decodeUserData(*text)
	if err != nil {
		return nil
	}
	return raw
}

// rendering is the JSON of a server in a list, stored until the server changes.
type rendering struct {
	base    string
	version api.Microversion
	text    wire.Encoded
}
