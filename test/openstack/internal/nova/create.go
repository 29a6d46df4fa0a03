package nova

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

type serverSpec struct {
	Name             string            `json:"name"`
	ImageRef         string            `json:"imageRef"`
	FlavorRef        string            `json:"flavorRef"`
	Networks         json.RawMessage   `json:"networks"`
	SecurityGroups   []named           `json:"security_groups"`
	UserData         *string           `json:"user_data"`
	AvailabilityZone *string           `json:"availability_zone"`
	Metadata         map[string]string `json:"metadata"`
	ConfigDrive      *bool             `json:"config_drive"`
	KeyName          string            `json:"key_name"`
	AdminPass        string            `json:"adminPass"`
	AccessIPv4       string            `json:"accessIPv4"`
	AccessIPv6       string            `json:"accessIPv6"`
	MinCount         int               `json:"min_count"`
	MaxCount         int               `json:"max_count"`
	Reservation      bool              `json:"return_reservation_id"`
	Tags             []string          `json:"tags"`
	Description      string            `json:"description"`
	BlockDevices     []blockDevice     `json:"block_device_mapping_v2"`
	DiskConfig       string            `json:"OS-DCF:diskConfig"`
	Hostname         string            `json:"hostname"`
}

type named struct {
	Name string `json:"name"`
}

type hints struct {
	Group           string          `json:"group"`
	DifferentHost   json.RawMessage `json:"different_host"`
	SameHost        json.RawMessage `json:"same_host"`
	Query           json.RawMessage `json:"query"`
	BuildNearHostIP json.RawMessage `json:"build_near_host_ip"`
}

type networkSpec struct {
	UUID  string `json:"uuid"`
	Port  string `json:"port"`
	Fixed string `json:"fixed_ip"`
	Tag   string `json:"tag"`
}

// draft is a server that is being requested: the fields of the request, and the objects that they refer
// to.
type draft struct {
	svc   *Service
	q     *api.Request
	spec  *serverSpec
	hints hints

	flavor *inventory.Flavor
	image  *glance.Image
	group  *inventory.ServerGroup
	nics   []nic
	groups []string
	count  int
}

// checks are the checks of a create request, in Nova's order. The first refusal is the answer.
var checks = []func(*draft) api.Reply{
	(*draft).checkFields, (*draft).checkMarks, (*draft).checkUserData, (*draft).checkCount, (*draft).resolveFlavor, (*draft).resolveKey,
	(*draft).resolveImage, (*draft).checkDevices, (*draft).checkZone, (*draft).resolveGroup, (*draft).resolveSecurityGroups,
	(*draft).resolveNetworks, (*draft).checkPorts, (*draft).checkQuota,
}

func (svc *Service) createServer(q *api.Request) api.Reply {
	var in struct {
		Server   serverSpec `json:"server"`
		Hints    *hints     `json:"os:scheduler_hints"`
		OldHints *hints     `json:"OS-SCH-HNT:scheduler_hints"`
	}
	if err := api.StrictDecode(q.Body, &in); err != nil {
		if name, unknown := api.UnknownKey(err); unknown {
			return q.Refuse(http.StatusBadRequest, "Invalid input for field/attribute server. Value: {...}. Additional properties are not allowed ('%s' was unexpected)", name)
		}
		return q.Refuse(http.StatusBadRequest, "Invalid input for field/attribute server: %s", err)
	}
	d := &draft{svc: svc, q: q, spec: &in.Server}
	for _, h := range []*hints{in.Hints, in.OldHints} {
		if h != nil {
			d.hints = *h
		}
	}
	for _, check := range checks {
		if refused := check(d); refused.Status != 0 {
			return refused
		}
	}
	var first *server
	reservation := "r-" + svc.kernel.NewID()[:8]
	for i := range d.count {
		s := d.build(i, reservation)
		if first == nil {
			first = s
		}
	}
	if d.spec.Reservation {
		return api.Reply{Status: http.StatusAccepted, Body: wire.Object{{"reservation_id", reservation}}}
	}
	groups := make([]wire.Object, 0, len(first.groups))
	for _, g := range first.groups {
		groups = append(groups, wire.Object{{"name", g}})
	}
	return api.Reply{Status: http.StatusAccepted, Body: wire.Object{{"server", wire.Object{
		{"id", first.id}, {"links", serverLinks(q.Base, first.id)}, {"OS-DCF:diskConfig", first.diskConfig},
		{"security_groups", groups}, {"adminPass", first.adminPass},
	}}}}.With("Location", q.Base+"/compute/v2.1/servers/"+first.id)
}

func (d *draft) bad(format string, args ...any) api.Reply {
	return d.q.Refuse(http.StatusBadRequest, format, args...)
}

// tooLong returns the refusal when a field is longer than Nova's schema allows.
func (d *draft) tooLong(field, value string, limit int) api.Reply {
	if len(value) > limit {
		return d.bad("Invalid input for field/attribute %s. Value: %.64s. '%.64s' is too long", field, value, value)
	}
	return api.Reply{}
}

func (d *draft) checkFields() api.Reply {
	v, spec := d.q.Version, d.spec
	switch {
	case strings.TrimSpace(spec.Name) == "":
		return d.bad("Invalid input for field/attribute name. Value: %s. '%s' is too short", spec.Name, spec.Name)
	case spec.Tags != nil && !v.AtLeast(2, 52):
		return d.bad("Invalid input for field/attribute server. Value: {...}. Additional properties are not allowed ('tags' was unexpected)")
	case spec.Description != "" && !v.AtLeast(2, 19):
		return d.bad("Invalid input for field/attribute server. Value: {...}. Additional properties are not allowed ('description' was unexpected)")
	case spec.Hostname != "" && !v.AtLeast(2, 90):
		return d.bad("Invalid input for field/attribute server. Value: {...}. Additional properties are not allowed ('hostname' was unexpected)")
	case len(spec.Tags) > 50:
		return d.bad("Invalid input for field/attribute tags. Value: [...]. [...] is too long")
	case len(spec.Metadata) > 128:
		return d.q.Refuse(http.StatusForbidden, "Maximum number of metadata items exceeds 128")
	}
	return d.tooLong("name", spec.Name, 255)
}

func (d *draft) checkMarks() api.Reply {
	for _, t := range d.spec.Tags {
		if t == "" || len(t) > 60 || strings.ContainsAny(t, "/,") {
			return d.bad("Invalid input for field/attribute 0. Value: %s. '%s' does not match '^[^,/]*$'", t, t)
		}
	}
	for key, value := range d.spec.Metadata {
		if !metadataKey.MatchString(key) {
			return d.bad("Invalid input for field/attribute metadata. Value: {...}. '%s' does not match any of the regexes: '^[a-zA-Z0-9-_:. ]{1,255}$'", key)
		}
		if r := d.tooLong(key, value, 255); r.Status != 0 {
			return r
		}
	}
	return api.Reply{}
}

var metadataKey = regexp.MustCompile(`^[a-zA-Z0-9-_:. ]{1,255}$`)

// maxUserData is the maximum length of the user data in base64, which is the length of the database
// column.
const maxUserData = 65535

func (d *draft) checkUserData() api.Reply {
	if d.spec.UserData == nil {
		return api.Reply{}
	}
	text := *d.spec.UserData
	if r := d.tooLong("user_data", text, maxUserData); r.Status != 0 {
		return r
	}
	if _, err := decodeUserData(text); err != nil {
		return d.bad("Invalid input for field/attribute user_data. Value: %.64s. '%.64s' is not a 'base64'", text, text)
	}
	return api.Reply{}
}

func (d *draft) checkCount() api.Reply {
	d.count = max(1, d.spec.MinCount, d.spec.MaxCount)
	if d.spec.MaxCount > 0 && d.spec.MinCount > d.spec.MaxCount {
		return d.bad("min_count must be <= max_count")
	}
	return api.Reply{}
}

func (d *draft) resolveFlavor() api.Reply {
	f, known := d.svc.Inventory.Flavor(d.spec.FlavorRef)
	if !known || !f.SeenBy(d.svc.Projects.ProjectName(d.q.Project())) {
		return d.bad("Flavor %s could not be found.", d.spec.FlavorRef)
	}
	d.flavor = f
	return api.Reply{}
}

func (d *draft) resolveKey() api.Reply {
	if d.spec.KeyName == "" {
		return api.Reply{}
	}
	if _, known := d.svc.Inventory.KeyPair(d.q.Caller.User, d.spec.KeyName); !known {
		return d.bad("Invalid key_name provided.")
	}
	return api.Reply{}
}

// bootDevice returns the block device that a server boots from; nil when it boots from an image on local disk.
func (d *draft) bootDevice() *blockDevice {
	for i := range d.spec.BlockDevices {
		if b := &d.spec.BlockDevices[i]; b.BootIndex != nil && *b.BootIndex == 0 {
			return b
		}
	}
	return nil
}

func (d *draft) resolveImage() api.Reply {
	id, boot := d.spec.ImageRef, d.bootDevice()
	if id == "" && boot != nil && boot.SourceType == "image" {
		id = boot.UUID
	}
	if id == "" {
		if boot == nil {
			return d.bad("Invalid imageRef provided.")
		}
		return api.Reply{}
	}
	image, known := d.svc.Images.Image(id)
	switch {
	case !uuidForm.MatchString(id):
		return d.bad("Invalid input for field/attribute imageRef. Value: %s. '%s' is not valid under any of the given schemas", id, id)
	case (!known || !image.SeenBy(d.q.Caller)) && d.spec.ImageRef == "":
		return d.bad("Block Device Mapping is Invalid: failed to get image %s.", id)
	case !known || !image.SeenBy(d.q.Caller):
		return d.bad("Can not find requested image")
	case image.State() != "active":
		return d.bad("Image %s is not active.", id)
	case d.flavor.RAM < image.MinRAM:
		return d.bad("Flavor's memory is too small for requested image.")
	}
	return d.useImage(image, boot)
}

// useImage checks that there is room for the image, on the flavor's own disk or on the volume.
func (d *draft) useImage(image *glance.Image, boot *blockDevice) api.Reply {
	onVolume := boot != nil && boot.DestinationType == "volume"
	if !onVolume && d.flavor.Disk > 0 && d.flavor.Disk < image.MinDisk {
		return d.bad("Flavor's disk is too small for requested image. Flavor disk is %d bytes, minimum size is %d bytes.", d.flavor.Disk<<30, image.MinDisk<<30)
	}
	if onVolume && boot.VolumeSize > 0 && boot.VolumeSize < image.MinDisk {
		return d.bad("Volume is smaller than the minimum size specified in image metadata. Volume size is %d bytes, minimum size is %d bytes.", boot.VolumeSize<<30, image.MinDisk<<30)
	}
	if !onVolume && d.flavor.Disk == 0 && !d.q.Caller.Admin {
		return d.q.Refuse(http.StatusForbidden, "Only volume-backed servers are allowed for flavors with zero disk.")
	}
	if !onVolume {
		d.image = image
	}
	return api.Reply{}
}

func (d *draft) checkDevices() api.Reply {
	for _, b := range d.spec.BlockDevices {
		switch {
		case b.VolumeType != nil && !d.q.Version.AtLeast(2, 67):
			return d.bad("Invalid input for field/attribute 0. Value: {...}. Additional properties are not allowed ('volume_type' was unexpected)")
		case b.VolumeType != nil && !d.svc.Volumes.HasType(*b.VolumeType):
			return d.bad("Block Device Mapping is Invalid: Volume type %s could not be found.", *b.VolumeType)
		case !slices.Contains([]string{"image", "volume", "blank", "snapshot"}, b.SourceType):
			return d.bad("Block Device Mapping is Invalid: Invalid source_type field.")
		case b.DestinationType == "volume" && b.SourceType != "volume" && b.VolumeSize <= 0:
			return d.bad("Block Device Mapping is Invalid: Images with destination_type 'volume' need to have a non-zero size specified")
		}
		if b.SourceType == "volume" {
			if v, known := d.svc.Volumes.Volume(b.UUID); !known || v.Project != d.q.Project() {
				return d.bad("Block Device Mapping is Invalid: failed to get volume %s.", b.UUID)
			} else if v.Status != "available" {
				return d.bad("Invalid volume: status must be available to reserve, but the status is %s.", v.Status)
			}
		}
	}
	return api.Reply{}
}

// checkZone refuses an unknown zone. Nova treats a zone without a usable host as unknown.
func (d *draft) checkZone() api.Reply {
	zone := d.spec.AvailabilityZone
	if zone == nil {
		return api.Reply{}
	}
	if !d.svc.Inventory.HasZone(*zone) {
		return d.bad("The requested availability zone is not available")
	}
	return api.Reply{}
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$`)

func (d *draft) resolveGroup() api.Reply {
	id := d.hints.Group
	if id == "" {
		return api.Reply{}
	}
	if !uuidForm.MatchString(id) {
		return d.bad("Invalid input for field/attribute group. Value: %s. '%s' is not a 'uuid'", id, id)
	}
	g, known := d.svc.Inventory.ServerGroup(id)
	if !known || g.Project != d.q.Project() {
		return d.bad("Instance group %s could not be found.", id)
	}
	if limit := d.svc.Quotas.Of(d.q.Project()).ServerGroupMembers; quotas.Beyond(limit, len(g.Members)+d.count) {
		text := "Quota exceeded, too many servers in group"
		if d.svc.Quotas.Unified {
			text = quotas.OverLimit("", quotas.Over{Resource: "server_group_members", Limit: limit, Used: len(g.Members), More: d.count})
		}
		return d.q.Refuse(http.StatusForbidden, "%s", text)
	}
	d.group = g
	return api.Reply{}
}

func (d *draft) checkQuota() api.Reply {
	if text := d.svc.Inventory.OverComputeQuota(d.q.Project(), d.flavor, d.count); text != "" {
		return d.q.Refuse(http.StatusForbidden, "%s", text)
	}
	return api.Reply{}
}

// build stores one server and schedules the steps of its creation.
func (d *draft) build(index int, reservation string) *server {
	q, spec := d.q, d.spec
	s := &server{
		id: d.svc.kernel.NewID(), name: spec.Name, project: q.Project(), user: q.Caller.User, created: q.Now, updated: q.Now, changed: q.Now,
		flavor: d.flavor, image: d.image, state: building, task: "scheduling", keyName: spec.KeyName, description: spec.Description,
		hostname: spec.Hostname, accessIPv4: spec.AccessIPv4, accessIPv6: spec.AccessIPv6, adminPass: spec.AdminPass, metadata: maps.Clone(spec.Metadata), tags: spec.Tags,
		configDrive: spec.ConfigDrive != nil && *spec.ConfigDrive, diskConfig: "MANUAL", reservation: reservation, group: d.group,
		nics: slices.Clone(d.nics), groups: d.groups, devices: spec.BlockDevices, addresses: wire.Object{},
	}
	if d.count > 1 {
		s.name = fmt.Sprintf("%s-%d", spec.Name, index+1)
	}
	if s.hostname == "" {
		s.hostname = hostname(s.name)
	}
	if s.adminPass == "" {
		s.adminPass = d.svc.kernel.NewID()[:12]
	}
	if spec.DiskConfig != "" {
		s.diskConfig = spec.DiskConfig
	}
	s.userData = userDataIn(spec.UserData)
	wire.Set(&s.zone, spec.AvailabilityZone)
	d.svc.servers.Put(s.id, s)
	d.svc.Inventory.Count(s.project, s.flavor, +1)
	if s.group != nil {
		s.group.Join(s.id)
	}
	d.svc.kernel.Plan(q.Now.Add(d.svc.cfg.ScheduleTime), func(at time.Time) { d.svc.place(s, at) })
	return s
}

// hostname returns the host name that Nova derives from a server's name.
func hostname(name string) string {
	name = strings.ToLower(strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '_':
			return '-'
		case r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			return r
		}
		return -1
	}, name))
	return strings.Trim(name, "-.")
}
