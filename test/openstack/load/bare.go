package load

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// Bare is a client that makes the same calls as drover makes for Machines, without drover's
// decisions.
type Bare struct {
	network, compute *gophercloud.ServiceClient
	// Network and Pool are the IDs of networks. Image and Flavor are the names with which servers
	// are created.
	Network, Pool, Image, Flavor string
	// Flights is the number of Machines for which Bare makes calls concurrently. 0 means no limit.
	Flights int
	// DeleteTime is how long the cloud needs to delete a server after the request.
	DeleteTime time.Duration

	mu   sync.Mutex
	made []bareServer
}

// bareServer holds the IDs of the resources created for one Machine.
type bareServer struct{ port, address, server string }

// NewBare returns a Bare that has signed in.
func NewBare(ctx context.Context, options gophercloud.AuthOptions, region string, through http.RoundTripper) (*Bare, error) {
	provider, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	provider.HTTPClient = http.Client{Transport: through}
	if err := openstack.Authenticate(ctx, provider, options); err != nil {
		return nil, fmt.Errorf("signing in: %w", err)
	}
	b := &Bare{}
	where := gophercloud.EndpointOpts{Region: region}
	if b.network, err = openstack.NewNetworkV2(provider, where); err != nil {
		return nil, fmt.Errorf("looking for Neutron: %w", err)
	}
	if b.compute, err = openstack.NewComputeV2(provider, where); err != nil {
		return nil, fmt.Errorf("looking for Nova: %w", err)
	}
	return b, nil
}

// Create makes n servers, each with a port and, when Pool is set, a floating IP.
func (b *Bare) Create(ctx context.Context, n int) error {
	return b.each(n, func(k int) error {
		one, err := b.create(ctx, fmt.Sprintf("bare-%d", k))
		b.mu.Lock()
		defer b.mu.Unlock()
		b.made = append(b.made, one)
		return err
	})
}

func (b *Bare) create(ctx context.Context, name string) (one bareServer, err error) {
	port, err := ports.Create(ctx, b.network, ports.CreateOpts{NetworkID: b.Network, Name: name}).Extract()
	if err != nil {
		return one, fmt.Errorf("creating a port: %w", err)
	}
	one.port = port.ID
	if b.Pool != "" {
		ip, err := floatingips.Create(ctx, b.network, floatingips.CreateOpts{FloatingNetworkID: b.Pool, PortID: port.ID}).Extract()
		if err != nil {
			return one, fmt.Errorf("creating a floating IP: %w", err)
		}
		one.address = ip.ID
	}
	server, err := servers.Create(ctx, b.compute, servers.CreateOpts{
		Name: name, FlavorRef: b.Flavor, ImageRef: b.Image, Networks: []servers.Network{{Port: port.ID}},
	}, nil).Extract()
	if err != nil {
		return one, fmt.Errorf("creating a server: %w", err)
	}
	one.server = server.ID
	return one, nil
}

// Delete deletes what Create created: each server, and its port and address once the server no
// longer exists.
func (b *Bare) Delete(ctx context.Context) error {
	return b.each(len(b.made), func(k int) error {
		one := b.made[k]
		if err := servers.Delete(ctx, b.compute, one.server).ExtractErr(); err != nil {
			return fmt.Errorf("deleting a server: %w", err)
		}
		time.Sleep(b.DeleteTime)
		if one.address != "" {
			if err := floatingips.Delete(ctx, b.network, one.address).ExtractErr(); err != nil {
				return fmt.Errorf("deleting a floating IP: %w", err)
			}
		}
		if err := ports.Delete(ctx, b.network, one.port).ExtractErr(); err != nil {
			return fmt.Errorf("deleting a port: %w", err)
		}
		return nil
	})
}

// each calls f with every number from 0 to n-1, at most Flights calls at the same time. It returns the first error.
func (b *Bare) each(n int, f func(k int) error) error {
	flights := b.Flights
	if flights == 0 {
		flights = n
	}
	places, failed := make(chan struct{}, flights), make(chan error, n)
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() {
			places <- struct{}{}
			failed <- f(k)
			<-places
		})
	}
	all.Wait()
	for range n {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}
