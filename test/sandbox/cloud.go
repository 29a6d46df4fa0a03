package sandbox

import (
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack"
)

// region is the region of the simulated cloud.
const region = openstack.MetaKubeRegion

// newCloud creates a simulated OpenStack with the contents that seed adds.
func newCloud(boot time.Duration, seed func(*openstack.Cloud)) *openstack.Cloud {
	return openstack.New(openstack.Config{BootTime: boot, DeleteTime: boot / 3, Seed: seed})
}

// credentials returns drover's credentials for the cloud as environment variables, with another password if one is given.
func credentials(cloud *openstack.Cloud, password string) []string {
	variables := cloud.Environment()
	for i := range variables {
		if password != "" && strings.HasPrefix(variables[i], "OS_PASSWORD=") {
			variables[i] = "OS_PASSWORD=" + password
		}
	}
	return variables
}
