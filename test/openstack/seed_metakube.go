package openstack

import (
	"fmt"
)

// The contents that SeedMetaKube creates in a cloud. The names are those used by the first MachineDeployment that
// drover was written for.
const (
	MetaKubeRegion        = "dbl"
	MetaKubeZone          = "dbl1"
	MetaKubeDomain        = "Default"
	MetaKubeProject       = "metakube"
	MetaKubeUser          = "drover"
	MetaKubePassword      = "drover-secret"
	MetaKubeFlavor        = "m1.small"
	MetaKubeImage         = "Ubuntu Noble 24.04 (2024-08-01)"
	MetaKubeFlatcar       = "Flatcar Stable 4593.2.0"
	MetaKubeNetwork       = "metakube-mmxfcmgjkx"
	MetaKubeSubnet        = "2969ae04-a429-4c1b-83e3-2f76fc3a342a"
	MetaKubeSecurityGroup = "metakube-mmxfcmgjkx"
	MetaKubeServerGroup   = "fe9dcd44-f08a-492a-9e64-4e38e1d51573"
	MetaKubePool          = "ext-net"
	MetaKubeVolumeType    = "ssd"
	// MetaKubeImpossible is a flavor for which no host has room.
	MetaKubeImpossible = "m1.impossible"

	MetaKubeAppCredentialID     = "5f2c1c9f6c3b4a5e8d7f0a1b2c3d4e5f"
	MetaKubeAppCredentialName   = "drover"
	MetaKubeAppCredentialSecret = "drover-app-secret"
)

// metaKubeHosts is the number of hosts. It is enough for thousands of small servers.
const metaKubeHosts = 20

// SeedMetaKube creates what the first MachineDeployment for drover refers to, and a few more resources: a region, two
// zones, flavors, images, a network, a subnet, groups, a floating IP pool of about 4000 addresses, and a user with a
// password and an application credential. Use it as Config.Seed, with an empty Config.Regions.
func SeedMetaKube(c *Cloud) {
	c.kernel.Hold(func() { c.identity.SetRegions([]string{MetaKubeRegion}) })
	c.AddUser(User{Name: MetaKubeUser, Password: MetaKubePassword, Projects: []string{MetaKubeProject}})
	c.seeded(c.AddAppCredential(AppCredential{
		ID: MetaKubeAppCredentialID, Name: MetaKubeAppCredentialName, Secret: MetaKubeAppCredentialSecret,
		User: MetaKubeUser, Project: MetaKubeProject,
	}))
	for i := range metaKubeHosts {
		zone, cell := MetaKubeZone, "cell1"
		if i%2 == 1 {
			zone, cell = "dbl2", "cell2"
		}
		c.SetHost(Host{Name: fmt.Sprintf("compute-%02d", i+1), Zone: zone, Cell: cell, VCPUs: 4000, RAM: 16 << 20, Disk: 1 << 20})
	}
	for _, f := range []Flavor{
		{Name: "m1.tiny", VCPUs: 1, RAM: 2048, Disk: 20},
		{Name: MetaKubeFlavor, VCPUs: 2, RAM: 8192, Disk: 50},
		{Name: "m1.medium", VCPUs: 4, RAM: 16384, Disk: 50},
		{Name: "l1.small", VCPUs: 2, RAM: 8192, Disk: 75, ExtraSpecs: map[string]string{"aggregate_instance_extra_specs:storage": "local"}},
		{Name: MetaKubeImpossible, VCPUs: 100000, RAM: 1024, Disk: 20},
	} {
		c.AddFlavor(f)
	}
	c.AddImage(Image{Name: MetaKubeImage, MinDisk: 8, Size: 3 << 30, Properties: map[string]string{"os_distro": "ubuntu", "os_version": "24.04", "architecture": "x86_64"}})
	c.AddImage(Image{Name: MetaKubeFlatcar, MinDisk: 8, Size: 2 << 30, Properties: map[string]string{"os_distro": "flatcar", "architecture": "x86_64"}})
	network := c.AddNetwork(Network{Name: MetaKubeNetwork, Project: MetaKubeProject})
	c.seeded(c.AddSubnet(Subnet{ID: MetaKubeSubnet, Name: MetaKubeNetwork, Network: network, CIDR: "192.168.1.0/24"}))
	pool := c.AddNetwork(Network{Name: MetaKubePool, External: true})
	c.seeded(c.AddSubnet(Subnet{Name: MetaKubePool, Network: pool, CIDR: "203.0.112.0/20"}))
	c.AddSecurityGroup(MetaKubeProject, MetaKubeSecurityGroup)
	c.AddServerGroup(MetaKubeProject, MetaKubeServerGroup, MetaKubeNetwork, "soft-anti-affinity")
	c.AddVolumeType(MetaKubeVolumeType)
}

// seeded records the first error that occurs while the initial contents are created. Start returns this error.
func (c *Cloud) seeded(_ string, err error) {
	if c.seedError == nil {
		c.seedError = err
	}
}

// Environment returns the variables with which OpenStack's clients sign in as the seed's user, by password.
func (c *Cloud) Environment() []string {
	return []string{
		"OS_AUTH_URL=" + c.AuthURL(), "OS_REGION_NAME=" + MetaKubeRegion, "OS_USERNAME=" + MetaKubeUser, "OS_PASSWORD=" + MetaKubePassword,
		"OS_PROJECT_NAME=" + MetaKubeProject, "OS_DOMAIN_NAME=" + MetaKubeDomain,
		"OS_USER_DOMAIN_NAME=" + MetaKubeDomain, "OS_PROJECT_DOMAIN_NAME=" + MetaKubeDomain, "OS_IDENTITY_API_VERSION=3",
	}
}

// AppEnvironment returns the variables for the seed's application credential.
func (c *Cloud) AppEnvironment() []string {
	return []string{
		"OS_AUTH_URL=" + c.AuthURL(), "OS_REGION_NAME=" + MetaKubeRegion, "OS_AUTH_TYPE=v3applicationcredential",
		"OS_APPLICATION_CREDENTIAL_ID=" + MetaKubeAppCredentialID, "OS_APPLICATION_CREDENTIAL_SECRET=" + MetaKubeAppCredentialSecret,
	}
}
