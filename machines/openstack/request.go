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

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// subject holds the fields of the Machine that go into requests.
type subject struct {
	cluster string
	uid     types.UID
	// server is the server's name.
	server string
}

func (s subject) port(n int) state.Tag {
	return state.Tag{Kind: cloud.ResourcePort, Cluster: s.cluster, Machine: s.uid, N: n}
}

func (s subject) floatingIP() state.Tag {
	return state.Tag{Kind: cloud.ResourceFloatingIP, Cluster: s.cluster, Machine: s.uid}
}

func (s subject) serverTag() state.Tag {
	return state.Tag{Kind: cloud.ResourceServer, Cluster: s.cluster, Machine: s.uid}
}

// portRequest returns the request for the n-th port.
func portRequest(s subject, p *catalog.Plan, n int) ports.CreateOptsBuilder {
	network := p.Ports[n]
	name := s.server
	if n > 0 {
		name = fmt.Sprintf("%s-%d", s.server, n)
	}
	o := ports.CreateOpts{NetworkID: network.NetworkID, Name: name, Description: s.port(n).String()}
	if network.SubnetID != "" {
		o.FixedIPs = []ports.IP{{SubnetID: network.SubnetID}}
	}
	if network.Open {
		return o
	}
	if p.SecurityGroups == nil {
		off := false
		o.SecurityGroups = &[]string{}
		return portsecurity.PortCreateOptsExt{CreateOptsBuilder: o, PortSecurityEnabled: &off}
	}
	o.SecurityGroups = &p.SecurityGroups
	return o
}

// floatingIPRequest returns the request for a floating IP that is created on the port: with a single call, no crash can leave an
// address unattached.
func floatingIPRequest(s subject, p *catalog.Plan, port string) floatingips.CreateOpts {
	return floatingips.CreateOpts{FloatingNetworkID: p.PoolID, PortID: port, Description: s.floatingIP().String()}
}

// serverRequest returns the request for the server on these ports. userData is base64-encoded.
func serverRequest(s subject, want *spec.Spec, p *catalog.Plan, portIDs []string, userData []byte) (servers.CreateOptsBuilder, servers.SchedulerHintOptsBuilder) {
	metadata := map[string]string{}
	maps.Copy(metadata, want.Metadata)
	metadata[state.MetadataMachineUID] = string(s.uid)
	metadata[state.MetadataClusterID] = s.cluster
	configDrive := want.ConfigDrive
	o := servers.CreateOpts{
		Name: s.server, FlavorRef: p.Flavor.ID, ImageRef: p.Image.ID, AvailabilityZone: want.AvailabilityZone,
		Metadata: metadata, Tags: want.Tags, ConfigDrive: &configDrive, UserData: userData,
	}
	networks := make([]servers.Network, 0, len(portIDs))
	for _, id := range portIDs {
		networks = append(networks, servers.Network{Port: id})
	}
	o.Networks = networks
	if want.RootDiskSizeGB > 0 {
		o.ImageRef = ""
		o.BlockDevice = []servers.BlockDevice{{
			SourceType: servers.SourceImage, DestinationType: servers.DestinationVolume, UUID: p.Image.ID,
			VolumeSize: want.RootDiskSizeGB, VolumeType: want.RootDiskVolumeType, DeleteOnTermination: true,
		}}
	}
	var request servers.CreateOptsBuilder = o
	if want.KeyName != "" {
		request = keypairs.CreateOptsExt{CreateOptsBuilder: o, KeyName: want.KeyName}
	}
	if p.ServerGroupID == "" {
		return request, nil
	}
	return request, servers.SchedulerHintOpts{Group: p.ServerGroupID}
}

// createVersion returns the microversion that supports all fields of a create request for this spec.
func createVersion(s *spec.Spec) client.Version {
	return client.CreateVersion(client.CreateFeatures{Tags: len(s.Tags) > 0, VolumeType: s.RootDiskVolumeType != "", Raised: s.ComputeAPIVersion})
}
