package openstack

import (
	"fmt"
	"maps"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory"
)

// plan is a spec with every name turned into what the cloud calls it.
type plan struct {
	flavor flavor
	image  image
	// networks in the order of the spec; each gets a port.
	networks []plannedNetwork
	// groups are the IDs of the security groups; nil when port security is off.
	groups []string
	// pool is the ID of the network that the floating IP comes from; empty: none is wanted.
	pool string
	// group is the ID of the server group; empty: none.
	group string
}

// plannedNetwork is a network that gets a port, and the subnet that its address must come from, if any.
type plannedNetwork struct {
	network, subnet string
}

// subject is the Machine as requests need to know it.
type subject struct {
	cluster string
	uid     types.UID
	// server is the server's name.
	server string
}

func (s subject) port(n int) inventory.OwnerTag {
	return inventory.OwnerTag{Kind: inventory.PortKind, Cluster: s.cluster, Machine: s.uid, N: n}
}

func (s subject) floatingIP() inventory.OwnerTag {
	return inventory.OwnerTag{Kind: inventory.FloatingIPKind, Cluster: s.cluster, Machine: s.uid}
}

func (s subject) serverTag() inventory.OwnerTag {
	return inventory.OwnerTag{Kind: inventory.ServerKind, Cluster: s.cluster, Machine: s.uid}
}

// portRequest asks for the n-th port.
func portRequest(s subject, p *plan, n int) ports.CreateOptsBuilder {
	network := p.networks[n]
	name := s.server
	if n > 0 {
		name = fmt.Sprintf("%s-%d", s.server, n)
	}
	o := ports.CreateOpts{NetworkID: network.network, Name: name, Description: s.port(n).String()}
	if network.subnet != "" {
		o.FixedIPs = []ports.IP{{SubnetID: network.subnet}}
	}
	if p.groups == nil {
		off := false
		o.SecurityGroups = &[]string{}
		return portsecurity.PortCreateOptsExt{CreateOptsBuilder: o, PortSecurityEnabled: &off}
	}
	o.SecurityGroups = &p.groups
	return o
}

// floatingIPRequest asks for an address that is on the port from the beginning: one call, and never a stray address.
func floatingIPRequest(s subject, p *plan, port string) floatingips.CreateOpts {
	return floatingips.CreateOpts{FloatingNetworkID: p.pool, PortID: port, Description: s.floatingIP().String()}
}

// serverRequest asks for the server on these ports. userData is in base64 form.
func serverRequest(s subject, spec *Spec, p *plan, portIDs []string, userData []byte) (servers.CreateOptsBuilder, servers.SchedulerHintOptsBuilder) {
	metadata := map[string]string{}
	maps.Copy(metadata, spec.Metadata)
	metadata[inventory.MetadataMachineUID] = string(s.uid)
	metadata[inventory.MetadataClusterID] = s.cluster
	configDrive := spec.ConfigDrive
	o := servers.CreateOpts{
		Name: s.server, FlavorRef: p.flavor.ID, ImageRef: p.image.ID, AvailabilityZone: spec.AvailabilityZone,
		Metadata: metadata, Tags: spec.Tags, ConfigDrive: &configDrive, UserData: userData,
	}
	networks := make([]servers.Network, 0, len(portIDs))
	for _, id := range portIDs {
		networks = append(networks, servers.Network{Port: id})
	}
	o.Networks = networks
	if spec.RootDiskSizeGB > 0 {
		o.ImageRef = ""
		o.BlockDevice = []servers.BlockDevice{{
			SourceType: servers.SourceImage, DestinationType: servers.DestinationVolume, UUID: p.image.ID,
			VolumeSize: spec.RootDiskSizeGB, VolumeType: spec.RootDiskVolumeType, DeleteOnTermination: true,
		}}
	}
	var request servers.CreateOptsBuilder = o
	if spec.KeyName != "" {
		request = keypairs.CreateOptsExt{CreateOptsBuilder: o, KeyName: spec.KeyName}
	}
	if p.group == "" {
		return request, nil
	}
	return request, servers.SchedulerHintOpts{Group: p.group}
}
