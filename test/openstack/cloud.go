package openstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/cinder"
	"github.com/drover-project/drover/test/openstack/internal/gate"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
	"github.com/drover-project/drover/test/openstack/internal/keystone"
	"github.com/drover-project/drover/test/openstack/internal/neutron"
	"github.com/drover-project/drover/test/openstack/internal/nova"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
)

// Config is how a Cloud is made. The zero value is a cloud in which everything happens at once and nothing is limited.
type Config struct {
	// Clock is what all time is read from; nil: the real one.
	Clock clock.WithTicker
	// BootTime is from the accepted POST to ACTIVE.
	BootTime time.Duration
	// ScheduleTime is from the accepted POST to the choice of a host, whose zone shows from then on, or to the fault that
	// says there is none; nil: a third of BootTime.
	ScheduleTime *time.Duration
	// ClaimTime is from the choice of a host to the moment at which the server shows it (hostId).
	ClaimTime time.Duration
	// NetworkTime is from then until the server's ports are bound and its addresses show. A server becomes ACTIVE no
	// earlier, whatever BootTime says.
	NetworkTime time.Duration
	// DeleteTime is from the accepted DELETE to the server being gone.
	DeleteTime time.Duration
	// PowerTime is from the accepted os-start or os-stop to ACTIVE or SHUTOFF.
	PowerTime time.Duration
	// Latency is how long every call takes before it is carried out.
	Latency time.Duration
	// Paces hold latency and concurrency of single kinds of calls, by Call.Name (such as `POST /ports`), in place of Latency.
	Paces map[string]Pace
	// TokenTTL is how long a token lives; 0: one hour.
	TokenTTL time.Duration
	// Regions are the names in the catalog; empty: RegionOne. All of them show the same resources.
	Regions []string
	// Quota is what a project may have unless SetQuota says otherwise.
	Quota Quota
	// FaultsInLists: lists show the fault of a server that no host was found for. Whether a real cloud's do depends on
	// which database its API is given as its own; those of the usual installation leave it to a GET of the server.
	FaultsInLists bool
	// FirstOfTwoFails: of two servers that were accepted on the same port, the first one fails. By default the second one does. On
	// a real cloud either happens.
	FirstOfTwoFails bool
	// ComputeMicroversion is the newest that Nova offers; empty: 2.93.
	ComputeMicroversion string
	// UnversionedCompute leaves the version out of the compute URLs in the catalog, as some installations do.
	UnversionedCompute bool
	// RateLimits hold per service ("identity", "compute", "network", "image", "volume").
	RateLimits map[string]RateLimit
	// Random is what IDs are drawn from, one after another; nil: crypto/rand. It may not fail.
	Random io.Reader
	// Seed fills the cloud with what it shall have; see SeedMetaKube.
	Seed func(*Cloud)
}

// Cloud is one simulated cloud. Make it with New.
type Cloud struct {
	cfg    Config
	kernel *kernel.Kernel
	quotas *quotas.Quotas
	router *api.Router
	newest api.Microversion

	identity  *keystone.Service
	inventory *inventory.Service
	compute   *nova.Service
	network   *neutron.Service
	images    *glance.Service
	volumes   *cinder.Service

	calls  gate.Log
	faults gate.Faults
	rates  *gate.Rates
	paces  *gate.Paces

	listeners     []*http.Server
	seedError     error
	api, metadata net.Listener
}

// New makes a cloud. It does not listen yet: see Start, Handler and RoundTripper.
func New(cfg Config) *Cloud {
	cfg.setDefaults()
	k := kernel.New(cfg.Clock, cfg.Random)
	c := &Cloud{cfg: cfg, kernel: k, quotas: quotas.New(cfg.Quota), rates: gate.NewRates(cfg.Clock, cfg.RateLimits), paces: gate.NewPaces(cfg.Paces)}
	c.newest, _ = api.ParseMicroversion(cfg.ComputeMicroversion)
	c.identity = keystone.New(k, keystone.Config{Regions: cfg.Regions, TokenTTL: cfg.TokenTTL, UnversionedCompute: cfg.UnversionedCompute})
	c.images = glance.New(k)
	c.volumes = cinder.New(k, c.quotas, c.images)
	c.network = neutron.New(k, c.quotas, c.identity)
	c.inventory = inventory.New(k, c.quotas)
	c.compute = nova.New(k, nova.Neighbours{Quotas: c.quotas, Inventory: c.inventory, Network: c.network, Ports: c.network, Volumes: c.volumes, Images: c.images, Projects: c.identity}, nova.Config{
		BootTime: cfg.BootTime, ScheduleTime: *cfg.ScheduleTime, ClaimTime: cfg.ClaimTime, NetworkTime: cfg.NetworkTime, DeleteTime: cfg.DeleteTime, PowerTime: cfg.PowerTime,
		FaultsInLists: cfg.FaultsInLists, FirstOfTwoFails: cfg.FirstOfTwoFails, BaseURL: c.baseURL,
	})
	c.network.OnAddressesChanged(c.compute.AddressesChanged)
	c.router = api.NewRouter(c.versionRoutes, c.identity.Routes, c.compute.Routes, c.inventory.Routes, c.network.Routes, c.images.Routes, c.volumes.Routes)
	if cfg.Seed != nil {
		cfg.Seed(c)
	}
	if len(c.Hosts()) == 0 {
		c.SetHost(Host{Name: "compute-1", Zone: "nova", Cell: "cell1"})
	}
	return c
}

// setDefaults fills in what was left empty.
func (cfg *Config) setDefaults() {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.TokenTTL == 0 {
		cfg.TokenTTL = time.Hour
	}
	if len(cfg.Regions) == 0 {
		cfg.Regions = []string{"RegionOne"}
	}
	if cfg.ComputeMicroversion == "" {
		cfg.ComputeMicroversion = "2.93"
	}
	if cfg.ScheduleTime == nil {
		third := cfg.BootTime / 3
		cfg.ScheduleTime = &third
	}
}

// Start listens on two free loopback ports, one for the API and one for the metadata service, until Close or until ctx
// ends. Error: the seed was wrong, or no port could be had.
func (c *Cloud) Start(ctx context.Context) error {
	if c.seedError != nil {
		return c.seedError
	}
	var err error
	if c.api, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("listening for the cloud's API: %w", err)
	}
	if c.metadata, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return errors.Join(fmt.Errorf("listening for the metadata service: %w", err), c.api.Close())
	}
	c.serve(c.api, c.Handler())
	c.serve(c.metadata, c.compute.MetadataHandler())
	context.AfterFunc(ctx, c.Close)
	return nil
}

func (c *Cloud) serve(l net.Listener, h http.Handler) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	c.listeners = append(c.listeners, s)
	go func() { _ = s.Serve(l) }()
}

// Close ends the listeners, cuts what still hangs, and stops the agenda.
func (c *Cloud) Close() {
	c.kernel.Close(func() {
		for _, s := range c.listeners {
			_ = s.Close()
		}
	})
}

// AuthURL is Keystone's address, versioned. Before Start it names a host that only the in-process door knows.
func (c *Cloud) AuthURL() string { return c.baseURL() + "/identity/v3" }

func (c *Cloud) baseURL() string {
	if c.api == nil {
		return "http://openstack.invalid"
	}
	return "http://" + c.api.Addr().String()
}

// MetadataURL is the metadata service's address; a request to it names its server in the header X-Instance-ID. Empty
// before Start.
func (c *Cloud) MetadataURL() string {
	if c.metadata == nil {
		return ""
	}
	return "http://" + c.metadata.Addr().String()
}
