package spec

import (
	"regexp"

	"github.com/drover-project/drover/machines/fault"
)

// SharedServerGroup is the value of Spec.ServerGroup for the one server group that all servers of the cluster share.
const SharedServerGroup = "shared"

// Spec is a cloudProviderSpec, merged from all layers with all references resolved. It has names as they are written; the catalog
// resolves them into IDs.
type Spec struct {
	Flavor, Image    string
	AvailabilityZone string
	// Networks may be empty; together with an empty Subnet, this means the only network that the project can use.
	Networks       []string
	Subnet         string
	SecurityGroups []string
	FloatingIPPool string
	// DisablePortSecurity creates ports without security groups and without address checks.
	DisablePortSecurity bool
	// RootDiskSizeGB is the size of the boot volume in GiB; 0 means to boot from the flavor's disk.
	RootDiskSizeGB     int
	RootDiskVolumeType string
	// ServerGroup is a name or an ID, or SharedServerGroup.
	ServerGroup string
	// ServerGroupField is the name of the field that ServerGroup was read from: serverGroup or serverGroupID.
	ServerGroupField string
	ConfigDrive      bool
	// Metadata is the server's metadata, and Tags are its Nova tags.
	Metadata map[string]string
	Tags     []string
	KeyName  string
	// ComputeAPIVersion is the least microversion of a server's create request. It can only raise the microversion that drover
	// uses.
	ComputeAPIVersion string

	// origin has the values that messages must not show; nil when there are none.
	origin *provenance
	// source is the highest source of the spec, which errors name.
	source string
}

// invalid returns an error about a field of the spec.
func (s *Spec) invalid(field, format string, args ...any) *fault.Error {
	return layer{source: s.source}.invalid(field, format, args...)
}

// Shown returns the value of a field for a message, or the reference that it came from.
func (s *Spec) Shown(field, text string) string {
	if s.origin == nil {
		return quote(text, nil)
	}
	return quote(text, s.origin.references[field])
}

// FieldError adds the name of a field to an error about that field. The error of a refused sign-in is not about a field and is
// returned unchanged.
func (s *Spec) FieldError(field string, err error) error {
	if fault.Of(err).Code == fault.CodeUnauthorized {
		return err
	}
	fields := []string{field}
	if field == "network" {
		fields = append(fields, "networks")
	}
	return layer{source: s.source}.wrong(field, s.Conceal(err, fields...))
}

// Conceal returns err without the values of the spec that came from a Secret or ConfigMap. When err means that the cloud has no
// resource with the name in one of the given fields, Conceal replaces the whole text.
func (s *Spec) Conceal(err error, fields ...string) error {
	if s.origin == nil {
		return err
	}
	return s.origin.conceal(err, fields...)
}

var apiVersion = regexp.MustCompile(`^2(\.\d{1,3})?$`)

// check returns the errors that can be found without calling the cloud.
func (s *Spec) check() error {
	switch {
	case s.Flavor == "":
		return s.invalid("flavor", "is missing; set the flavor of the servers")
	case s.Image == "":
		return s.invalid("image", "is missing; set the image of the servers")
	case s.RootDiskVolumeType != "" && s.RootDiskSizeGB == 0:
		return s.invalid("rootDiskVolumeType", "has no effect without rootDiskSizeGB; set both or none")
	case s.ComputeAPIVersion != "" && !apiVersion.MatchString(s.ComputeAPIVersion):
		return s.invalid("computeAPIVersion", "%s is not a version; use one like 2.67, in quotes", s.Shown("computeAPIVersion", s.ComputeAPIVersion))
	case s.DisablePortSecurity && len(s.SecurityGroups) > 0:
		return s.invalid("disablePortSecurity", "conflicts with securityGroups; keep one")
	}
	return nil
}
