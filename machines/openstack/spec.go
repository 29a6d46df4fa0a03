package openstack

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// specFields are the fields of cloudProviderSpec as they are spelled; docs/openstack.md explains each.
var specFields = []string{
	"identityEndpoint", "region", "tokenId",
	"username", "password", "domainName", "projectName", "tenantName", "projectID", "tenantID",
	"applicationCredentialID", "applicationCredentialName", "applicationCredentialSecret",
	"image", "flavor", "availabilityZone", "network", "networks", "subnet", "securityGroups", "floatingIpPool",
	"disablePortSecurity", "rootDiskSizeGB", "rootDiskVolumeType", "serverGroup", "serverGroupID", "configDrive", "tags",
	"keyName", "computeAPIVersion",
}

// withoutEffect holds the fields that machine-controller and its forks have and drover accepts without effect, each with
// the reason.
var withoutEffect = map[string]string{
	"trustDevicePath":               "only the volume plugin that Kubernetes 1.26 removed read it",
	"nodeVolumeAttachLimit":         "the limit is an option of the Cinder CSI driver",
	"openstackClientTimeout":        "every call has a deadline of 60 s",
	"openstackComputeClientTimeout": "every call has a deadline of 60 s",
	"instanceReadyCheckPeriod":      "drover lists the servers of the project and polls no single server",
	"instanceReadyCheckTimeout":     "drover lists the servers of the project and polls no single server",
	"insecure":                      "the certificate of the cloud is always verified",
}

// ignoredFields are the keys of withoutEffect.
var ignoredFields = slices.Sorted(maps.Keys(withoutEffect))

// Spec is a cloudProviderSpec after all layers have filled it and references were followed. Names are as written; the
// catalog turns them into IDs.
type Spec struct {
	Flavor, Image    string
	AvailabilityZone string
	// Networks: empty, with an empty Subnet, means the only network that the project can use.
	Networks       []string
	Subnet         string
	SecurityGroups []string
	FloatingIPPool string
	// DisablePortSecurity: ports without security groups and without address checks.
	DisablePortSecurity bool
	// RootDiskSizeGB: boot from a volume of that many GiB; 0: the flavor's disk.
	RootDiskSizeGB     int
	RootDiskVolumeType string
	// ServerGroup is a name or an ID, or shared: the one group of the cluster.
	ServerGroup string
	// serverGroupField is the name under which it is written.
	serverGroupField string
	ConfigDrive      bool
	// Metadata of the server, and its Nova tags.
	Metadata map[string]string
	Tags     []string
	KeyName  string
	// ComputeAPIVersion raises the microversion of compute calls; it never lowers it.
	ComputeAPIVersion string

	// origin says which values must not be shown; nil: none.
	origin *provenance
	// source is the object that the people who read an error will look at first.
	source string
}

// createVersion returns the microversion that carries a request for a server of this spec.
func createVersion(s *Spec) client.Version {
	return client.CreateVersion(client.CreateFeatures{Tags: len(s.Tags) > 0, VolumeType: s.RootDiskVolumeType != "", Raised: s.ComputeAPIVersion})
}

// invalid says what is wrong with a field of the spec as a whole.
func (s *Spec) invalid(field, format string, args ...any) *fault.Error {
	return layer{source: s.source}.invalid(field, format, args...)
}

// shown returns the value of a field for a message, or the reference that it came from.
func (s *Spec) shown(field, text string) string {
	if s.origin == nil {
		return quote(text, nil)
	}
	return quote(text, s.origin.references[field])
}

// readSpec reads the fields that are no credentials. What only the cloud can judge is left to it.
func readSpec(ctx context.Context, ls layers) (*Spec, error) {
	ls.origin = newProvenance()
	s := &Spec{source: ls.list[0].source, origin: ls.origin}
	for _, f := range []struct {
		into  *string
		names []string
	}{
		{&s.Flavor, []string{"flavor"}}, {&s.Image, []string{"image"}}, {&s.AvailabilityZone, []string{"availabilityZone"}},
		{&s.Subnet, []string{"subnet"}}, {&s.FloatingIPPool, []string{"floatingIpPool"}},
		{&s.RootDiskVolumeType, []string{"rootDiskVolumeType"}},
		{&s.KeyName, []string{"keyName"}}, {&s.ComputeAPIVersion, []string{"computeAPIVersion"}},
	} {
		got, err := ls.text(ctx, f.names...)
		if err != nil {
			return nil, err
		}
		*f.into = got.text
	}
	group, err := ls.text(ctx, "serverGroupID", "serverGroup")
	if err != nil {
		return nil, err
	}
	s.ServerGroup, s.serverGroupField = group.text, group.field
	for _, read := range []func(context.Context, layers) error{s.readLists, s.readFlags, s.readDisk, s.readTags} {
		if err := read(ctx, ls); err != nil {
			return nil, err
		}
	}
	return s, s.check()
}

func (s *Spec) readLists(ctx context.Context, ls layers) (err error) {
	if s.SecurityGroups, _, err = ls.texts(ctx, "securityGroups"); err != nil {
		return err
	}
	first, err := ls.text(ctx, "network")
	if err != nil {
		return err
	}
	more, from, err := ls.texts(ctx, "networks")
	if err != nil {
		return err
	}
	// network and networks are one field: the highest layer that has either gives both.
	if first.given() && (from < 0 || first.from <= from) {
		s.Networks = append(s.Networks, first.text)
	}
	if from >= 0 && (!first.given() || from <= first.from) {
		s.Networks = append(s.Networks, more...)
	}
	s.Networks = unique(s.Networks)
	return nil
}

func (s *Spec) readFlags(ctx context.Context, ls layers) (err error) {
	if s.ConfigDrive, err = ls.flag(ctx, "configDrive"); err != nil {
		return err
	}
	s.DisablePortSecurity, err = ls.flag(ctx, "disablePortSecurity")
	return err
}

func (s *Spec) readDisk(ctx context.Context, ls layers) error {
	size, err := ls.text(ctx, "rootDiskSizeGB")
	if err != nil || !size.given() {
		return err
	}
	s.RootDiskSizeGB, err = strconv.Atoi(size.text)
	if err != nil || s.RootDiskSizeGB < 0 {
		return ls.list[size.from].invalid("rootDiskSizeGB", "%s is not a size; give a whole number of GiB", size.shown())
	}
	return nil
}

// readTags reads a map (server metadata) or a list (k=v: metadata, plain: a Nova tag).
func (s *Spec) readTags(ctx context.Context, ls layers) error {
	for i, l := range ls.list {
		raw := l.fields["tags"]
		if len(raw) == 0 {
			continue
		}
		if raw[0] == '[' {
			list, err := ls.textsIn(ctx, i, "tags")
			if err != nil {
				return l.wrong("tags", err)
			}
			s.splitTags(list)
		} else if err := json.Unmarshal(raw, &s.Metadata); err != nil {
			return l.invalid("tags", "is neither a map of strings nor a list of strings")
		}
		for _, reserved := range []string{inventory.MetadataMachineUID, inventory.MetadataClusterID} {
			if _, taken := s.Metadata[reserved]; taken {
				return l.invalid("tags", "the key %s is drover's own; remove it", reserved)
			}
		}
		if len(s.Metadata)+len(s.Tags) > 0 {
			return nil
		}
	}
	return nil
}

func (s *Spec) splitTags(list []string) {
	for _, tag := range list {
		key, val, pair := strings.Cut(tag, "=")
		if !pair {
			s.Tags = append(s.Tags, tag)
			continue
		}
		if s.Metadata == nil {
			s.Metadata = map[string]string{}
		}
		s.Metadata[key] = val
	}
}

var apiVersion = regexp.MustCompile(`^2(\.\d{1,3})?$`)

// check holds what can be judged without the cloud.
func (s *Spec) check() error {
	switch {
	case s.Flavor == "":
		return s.invalid("flavor", "is missing; name the flavor of the servers")
	case s.Image == "":
		return s.invalid("image", "is missing; name the image of the servers")
	case s.RootDiskVolumeType != "" && s.RootDiskSizeGB == 0:
		return s.invalid("rootDiskVolumeType", "has no meaning without rootDiskSizeGB; set both or none")
	case s.ComputeAPIVersion != "" && !apiVersion.MatchString(s.ComputeAPIVersion):
		return s.invalid("computeAPIVersion", "%s is not a version; write it like 2.67, in quotes", s.shown("computeAPIVersion", s.ComputeAPIVersion))
	case s.DisablePortSecurity && len(s.SecurityGroups) > 0:
		return s.invalid("disablePortSecurity", "conflicts with securityGroups; keep one")
	}
	return nil
}

// unique keeps the first of equal texts.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
