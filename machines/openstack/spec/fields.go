package spec

import (
	"maps"
	"slices"
)

// specFields are the names of the fields of cloudProviderSpec; docs/openstack.md describes each.
var specFields = []string{
	"identityEndpoint", "region", "tokenId",
	"username", "password", "domainName", "projectName", "tenantName", "projectID", "tenantID",
	"applicationCredentialID", "applicationCredentialName", "applicationCredentialSecret",
	"image", "flavor", "availabilityZone", "network", "networks", "subnet", "securityGroups", "floatingIpPool",
	"disablePortSecurity", "rootDiskSizeGB", "rootDiskVolumeType", "serverGroup", "serverGroupID", "configDrive", "tags",
	"keyName", "computeAPIVersion",
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

// credentialFields are the fields that a class's Secrets may have as keys; authURL is another name of the endpoint.
var credentialFields = []string{
	"identityEndpoint", "region", "tokenId", "username", "password", "domainName", "projectName", "tenantName", "projectID",
	"tenantID", "applicationCredentialID", "applicationCredentialName", "applicationCredentialSecret",
}

// isSignIn reports whether a field is part of a way of signing in.
func isSignIn(field string) bool {
	return slices.Contains([]string{
		"applicationCredentialID", "applicationCredentialName", "applicationCredentialSecret", "username", "password", "tokenId",
	}, field)
}

// isProject reports whether a field names the project.
func isProject(field string) bool {
	return slices.Contains([]string{"projectID", "tenantID", "projectName", "tenantName"}, field)
}
