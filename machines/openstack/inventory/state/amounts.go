package state

import (
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Amounts are quantities of what quotas limit. The constants below are its indexes.
type Amounts [7]int

// The indexes of Amounts.
const (
	Instances = iota
	Cores
	RAMMiB
	Ports
	FloatingIPs
	Volumes
	VolumeGiB
)

// counted maps each service to the indexes of the amounts that its quotas limit.
var counted = map[client.Service][]int{
	client.Compute: {Instances, Cores, RAMMiB},
	client.Network: {Ports, FloatingIPs},
	client.Volume:  {Volumes, VolumeGiB},
}

// serviceOf returns the service whose quota is exhausted. It may not be the service that returned the error, because Nova passes on
// errors of Neutron and Cinder.
func serviceOf(code fault.Code) client.Service {
	switch code {
	case fault.CodePortQuotaExceeded, fault.CodeFloatingIPQuotaExceeded:
		return client.Network
	case fault.CodeVolumeQuotaExceeded:
		return client.Volume
	}
	return client.Compute
}
