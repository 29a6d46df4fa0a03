package spec

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
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

	// fields is the merged document, and hidden maps its values that messages must not show to the references that they show instead.
	fields map[string]value
	hidden map[string]string
	// source is the highest source of the spec, which errors name.
	source string
}

// reference returns the reference from which a field was read; nil when there is none.
func (s *Spec) reference(field string) *reference {
	v := s.fields[cmp.Or(map[string]string{"serverGroup": "serverGroupID"}[field], field)]
	for _, item := range v.list {
		v.ref = cmp.Or(item.ref, v.ref)
	}
	return v.ref
}

// Shown returns the value of a field for a message, or the reference that it came from.
func (s *Spec) Shown(field, text string) string {
	return value{text: text, ref: s.reference(field)}.shown()
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
	return about(s.source+"."+field, s.Conceal(err, fields...))
}

// Conceal returns err without the values of the spec that came from a Secret or ConfigMap. When the cloud has no resource with the name in
// one of the fields, Conceal replaces the whole text of err, because that text may suggest names similar to the value.
func (s *Spec) Conceal(err error, fields ...string) error {
	e := fault.Of(err)
	if e == nil || len(s.hidden) == 0 {
		return err
	}
	message := client.Conceal(e.Message, s.hidden)
	for _, field := range fields {
		if ref := s.reference(field); ref != nil && fault.Unmatched(e.Code) {
			message = fmt.Sprintf("%s matches none, or several, of the resources that this project can see (%s)", ref.value(), e.Code)
		}
	}
	if message == e.Message {
		return err
	}
	return reworded(err, message)
}
