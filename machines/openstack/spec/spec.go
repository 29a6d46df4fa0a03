package spec

import (
	"regexp"

	"github.com/drover-project/drover/machines/fault"
)

// SharedServerGroup stands in place of a server group's name for the one group that all servers of the cluster share.
const SharedServerGroup = "shared"

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
	// ServerGroup is a name or an ID, or SharedServerGroup.
	ServerGroup string
	// ServerGroupField is the name of the field that holds ServerGroup: serverGroup or serverGroupID.
	ServerGroupField string
	ConfigDrive      bool
	// Metadata of the server, and its Nova tags.
	Metadata map[string]string
	Tags     []string
	KeyName  string
	// ComputeAPIVersion raises the microversion of compute calls; it never lowers it.
	ComputeAPIVersion string

	// origin holds the values that must not be shown; nil: none.
	origin *provenance
	// source is the highest source of the spec, which errors name.
	source string
}

// invalid returns the error about a field of the spec as a whole.
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

// FieldError returns err with the field that it is about. A refused sign-in is about no field and stays as it is.
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

// Conceal returns err without the values of the spec that came from a Secret or ConfigMap. When err is about the given fields, and
// the cloud has nothing of the name that one of them holds, its whole text is replaced.
func (s *Spec) Conceal(err error, fields ...string) error {
	if s.origin == nil {
		return err
	}
	return s.origin.conceal(err, fields...)
}

var apiVersion = regexp.MustCompile(`^2(\.\d{1,3})?$`)

// check returns the error that can be found without the cloud.
func (s *Spec) check() error {
	switch {
	case s.Flavor == "":
		return s.invalid("flavor", "is missing; name the flavor of the servers")
	case s.Image == "":
		return s.invalid("image", "is missing; name the image of the servers")
	case s.RootDiskVolumeType != "" && s.RootDiskSizeGB == 0:
		return s.invalid("rootDiskVolumeType", "has no meaning without rootDiskSizeGB; set both or none")
	case s.ComputeAPIVersion != "" && !apiVersion.MatchString(s.ComputeAPIVersion):
		return s.invalid("computeAPIVersion", "%s is not a version; write it like 2.67, in quotes", s.Shown("computeAPIVersion", s.ComputeAPIVersion))
	case s.DisablePortSecurity && len(s.SecurityGroups) > 0:
		return s.invalid("disablePortSecurity", "conflicts with securityGroups; keep one")
	}
	return nil
}
