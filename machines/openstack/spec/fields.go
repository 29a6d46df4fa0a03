package spec

import (
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/drover-project/drover/machines/openstack/settings"
)

// specFields are the fields of cloudProviderSpec, each with its names; docs/openstack.md describes each. Of two names of a field in one
// layer, the first counts.
var specFields = [][]string{
	{"identityEndpoint"}, {"region"}, {"applicationCredentialID"}, {"applicationCredentialName"}, {"applicationCredentialSecret"},
	{"username"}, {"password"}, {"tokenId"}, {"domainName"}, {"projectID", "tenantID"}, {"projectName", "tenantName"},
	{"image"}, {"flavor"}, {"availabilityZone"}, {"network"}, {"networks"}, {"subnet"}, {"securityGroups"}, {"floatingIpPool"},
	{"disablePortSecurity"}, {"rootDiskSizeGB"}, {"rootDiskVolumeType"}, {"serverGroupID", "serverGroup"}, {"configDrive"}, {"tags"},
	{"keyName"}, {"computeAPIVersion"},
}

// fieldNames are all names of specFields.
var fieldNames = slices.Concat(specFields...)

// isCredential reports whether a field, given its first name, is about credentials.
func isCredential(field string) bool { return settings.NameOf(field) != "" }

// form is what a field holds that is not just a text.
type form struct {
	// list is true for a list of texts. With pairs, the field may also be a map of strings.
	list, pairs bool
	// boolean is true for true and false without quotes. A text that a reference yields may have any form of strconv.ParseBool, as with
	// machine-controller.
	boolean bool
	// fits checks a text, and says is the error about a text that does not fit.
	fits func(text string) bool
	says string
}

// forms has the fields that are not just texts.
var forms = map[string]form{
	"networks":            {list: true},
	"securityGroups":      {list: true},
	"tags":                {list: true, pairs: true},
	"configDrive":         {boolean: true, fits: isBoolean, says: "is not a boolean; use true or false"},
	"disablePortSecurity": {boolean: true, fits: isBoolean, says: "is not a boolean; use true or false"},
	"rootDiskSizeGB":      {fits: isSize, says: "is not a size; use a whole number of GiB"},
	"computeAPIVersion":   {fits: apiVersion.MatchString, says: "is not a version; use one like 2.67, in quotes"},
}

var apiVersion = regexp.MustCompile(`^2(\.\d{1,3})?$`)

func isBoolean(text string) bool {
	_, err := strconv.ParseBool(text)
	return err == nil
}

func isSize(text string) bool {
	size, err := strconv.Atoi(text)
	return err == nil && size >= 0
}

// withoutEffect has the fields of machine-controller and its forks that drover accepts without effect, each with the reason.
var withoutEffect = map[string]string{
	"trustDevicePath":               "it was for the volume plugin that Kubernetes 1.26 removed",
	"nodeVolumeAttachLimit":         "the limit is an option of the Cinder CSI driver",
	"openstackClientTimeout":        "every call has a deadline of 60 s",
	"openstackComputeClientTimeout": "every call has a deadline of 60 s",
	"instanceReadyCheckPeriod":      "drover lists the servers of the project and polls no single server",
	"instanceReadyCheckTimeout":     "drover lists the servers of the project and polls no single server",
	"insecure":                      "the certificate of the cloud is always verified",
}

// ignoredFields are the keys of withoutEffect.
var ignoredFields = slices.Sorted(maps.Keys(withoutEffect))
