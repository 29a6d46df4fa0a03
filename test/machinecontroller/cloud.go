package machinecontroller

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// machineUID is the key of a server's metadata that holds the UID of its Machine.
const machineUID = "machine-uid"

// providerSpec holds the fields of a provider spec that the simulated machine-controller reads, as plain texts.
type providerSpec struct {
	IdentityEndpoint, Username, Password, DomainName, TenantName, Region string
	Image, Flavor, Network, FloatingIPPool                               string
}

// cloud is a connection with the credentials of a provider spec.
type cloud struct {
	spec                    providerSpec
	compute, network, image *gophercloud.ServiceClient
}

// connect signs in with the credentials in a Machine's spec.
func connect(ctx context.Context, m *Machine) (*cloud, error) {
	var document struct{ CloudProviderSpec providerSpec }
	if err := json.Unmarshal(m.Spec.ProviderSpec.Value.Raw, &document); err != nil {
		return nil, fmt.Errorf("reading the provider spec of %s: %w", m.Name, err)
	}
	spec := document.CloudProviderSpec
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: spec.IdentityEndpoint, Username: spec.Username, Password: spec.Password,
		DomainName: spec.DomainName, TenantName: spec.TenantName,
	})
	if err != nil {
		return nil, fmt.Errorf("signing in: %w", err)
	}
	c := &cloud{spec: spec}
	region := gophercloud.EndpointOpts{Region: spec.Region}
	if c.compute, err = openstack.NewComputeV2(provider, region); err == nil {
		c.network, err = openstack.NewNetworkV2(provider, region)
	}
	if err == nil {
		c.image, err = openstack.NewImageV2(provider, region)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the services of the cloud: %w", err)
	}
	return c, nil
}

// server returns the server with the UID of a Machine; nil when there is none.
func (c *cloud) server(ctx context.Context, m *Machine) (*servers.Server, error) {
	pages, err := servers.List(c.compute, servers.ListOpts{Name: m.Spec.Name}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing servers: %w", err)
	}
	all, err := servers.ExtractServers(pages)
	if err != nil {
		return nil, fmt.Errorf("reading the list of servers: %w", err)
	}
	for i := range all {
		if all[i].Metadata[machineUID] == string(m.UID) {
			return &all[i], nil
		}
	}
	return nil, nil
}

// create requests a server. Nova creates the server's port.
func (c *cloud) create(ctx context.Context, m *Machine, userData []byte) (*servers.Server, error) {
	flavor, image, network, err := c.names(ctx)
	if err != nil {
		return nil, err
	}
	made, err := servers.Create(ctx, c.compute, servers.CreateOpts{
		Name: m.Spec.Name, FlavorRef: flavor, ImageRef: image, UserData: userData,
		Networks: []servers.Network{{UUID: network}}, Metadata: map[string]string{machineUID: string(m.UID)},
	}, nil).Extract()
	if err != nil {
		return nil, fmt.Errorf("creating a server for %s: %w", m.Name, err)
	}
	return made, nil
}

// names returns the IDs of the flavor, image and network that the spec names.
func (c *cloud) names(ctx context.Context) (flavor, image, network string, err error) {
	flavorPages, err := flavors.ListDetail(c.compute, nil).AllPages(ctx)
	if err != nil {
		return "", "", "", fmt.Errorf("listing flavors: %w", err)
	}
	allFlavors, err := flavors.ExtractFlavors(flavorPages)
	if err != nil {
		return "", "", "", fmt.Errorf("reading the flavors: %w", err)
	}
	for _, f := range allFlavors {
		if f.Name == c.spec.Flavor {
			flavor = f.ID
		}
	}
	imagePages, err := images.List(c.image, images.ListOpts{Name: c.spec.Image}).AllPages(ctx)
	if err != nil {
		return "", "", "", fmt.Errorf("listing images: %w", err)
	}
	allImages, err := images.ExtractImages(imagePages)
	if err != nil || len(allImages) != 1 {
		return "", "", "", fmt.Errorf("looking for image %s: %d found, %w", c.spec.Image, len(allImages), err)
	}
	network, err = c.networkID(ctx, c.spec.Network)
	return flavor, allImages[0].ID, network, err
}

// networkID returns the ID of a network.
func (c *cloud) networkID(ctx context.Context, name string) (string, error) {
	pages, err := networks.List(c.network, networks.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return "", fmt.Errorf("listing networks: %w", err)
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil || len(all) != 1 {
		return "", fmt.Errorf("looking for network %s: %d found, %w", name, len(all), err)
	}
	return all[0].ID, nil
}

// address creates a floating IP on the port of a server, and returns its ID. The ID is empty while the server
// has no port.
func (c *cloud) address(ctx context.Context, server string) (string, error) {
	pages, err := ports.List(c.network, ports.ListOpts{DeviceID: server}).AllPages(ctx)
	if err != nil {
		return "", fmt.Errorf("listing ports: %w", err)
	}
	all, err := ports.ExtractPorts(pages)
	if err != nil || len(all) == 0 {
		return "", err
	}
	pool, err := c.networkID(ctx, c.spec.FloatingIPPool)
	if err != nil {
		return "", err
	}
	made, err := floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: pool, PortID: all[0].ID}).Extract()
	if err != nil {
		return "", fmt.Errorf("creating a floating IP: %w", err)
	}
	return made.ID, nil
}

// release deletes a floating IP. It does nothing without an ID.
func (c *cloud) release(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	err := floatingips.Delete(ctx, c.network, id).ExtractErr()
	if err != nil && !gophercloud.ResponseCodeIs(err, 404) {
		return fmt.Errorf("deleting floating IP %s: %w", id, err)
	}
	return nil
}

// remove requests the deletion of a server.
func (c *cloud) remove(ctx context.Context, id string) error {
	err := servers.Delete(ctx, c.compute, id).ExtractErr()
	if err != nil && !gophercloud.ResponseCodeIs(err, 404) {
		return fmt.Errorf("deleting server %s: %w", id, err)
	}
	return nil
}
