package sandbox

import (
	"strings"
	"time"

	"github.com/drover-project/drover/test/openstack"
)

// region is the simulated cloud's.
const region = openstack.MetaKubeRegion

// newCloud is a simulated OpenStack that seed has filled.
func newCloud(boot time.Duration, seed func(*openstack.Cloud)) *openstack.Cloud {
	return openstack.New(openstack.Config{BootTime: boot, DeleteTime: boot / 3, Seed: seed})
}

// credentials are drover's for the cloud, as variables of its environment, with another password when one is given.
func credentials(cloud *openstack.Cloud, password string) []string {
	variables := cloud.Environment()
	for i := range variables {
		if password != "" && strings.HasPrefix(variables[i], "OS_PASSWORD=") {
			variables[i] = "OS_PASSWORD=" + password
		}
	}
	return variables
}
