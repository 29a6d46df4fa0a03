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

// Config configures a Cloud. The zero value is a cloud in which everything happens immediately and nothing is limited.
type Config struct {
	// Clock is the source of all times; nil means the real clock.
	Clock clock.WithTicker
	// BootTime is the time from the accepted POST to ACTIVE.
	BootTime time.Duration
	// ScheduleTime is the time from the accepted POST until a host is chosen. From then on the server shows the host's zone, or
	// the fault that no host was found. nil means a third of BootTime.
	ScheduleTime *time.Duration
	// ClaimTime is the time from the choice of a host until the server shows the host (hostId).
	ClaimTime time.Duration
	// NetworkTime is the time after ClaimTime until the server's ports are bound and its addresses are shown. A server never
	// becomes ACTIVE earlier, whatever BootTime is.
	NetworkTime time.Duration
	// DeleteTime is the time from the accepted DELETE until the server no longer exists.
	DeleteTime time.Duration
	// PowerTime is the time from the accepted os-start or os-stop to ACTIVE or SHUTOFF.
	PowerTime time.Duration
	// Latency is how long each call takes before it is carried out.
	Latency time.Duration
	// Paces holds the latency and concurrency of kinds of calls, by Call.Name (such as `POST /ports`). A Pace replaces Latency.
	Paces map[string]Pace
	// TokenTTL is the lifetime of a token; 0 means one hour.
	TokenTTL time.Duration
	// Regions are the names of the regions in the catalog. Empty means RegionOne. All regions show the same resources.
	Regions []string
	// Quota is the quota of a project unless SetQuota sets another one.
	Quota Quota
	// FaultsInLists makes lists show the fault of a server for which no host was found. In a real cloud this depends on the
	// database with which the API is configured. A usual installation shows the fault only in a GET of the server.
	FaultsInLists bool
	// FirstOfTwoFails makes the first of two servers that were accepted on the same port fail. By default the second server
	// fails. Both happen in real clouds.
	FirstOfTwoFails bool
	// ComputeMicroversion is the newest microversion of Nova; empty means 2.93.
	ComputeMicroversion string
	// UnversionedCompute leaves the version out of the compute URLs in the catalog, as some installations do.
	UnversionedCompute bool
	// UnifiedLimits makes Nova refuse requests beyond a quota with the texts of its unified limits, which are in Keystone.
	UnifiedLimits bool
	// FailedBuildsLeaveVolumes makes the volumes of a server in ERROR outlive the server, even those that Nova deletes with a server.
	// This happens when Cinder does not delete them when Nova asks: Nova only logs that.
	FailedBuildsLeaveVolumes bool
	// ErrorForm is the form of errors of the compute and volume services. Only vendors' clouds have another one than OpenStackErrors,
	// so no real OpenStack can confirm the other forms.
	ErrorForm ErrorForm
	// ClockAhead is how far the cloud's clock is ahead of Clock: in Date headers, and in all times of resources and tokens.
	ClockAhead time.Duration
	// RateLimits holds the limit of each service ("identity", "compute", "network", "image", "volume").
	RateLimits map[string]RateLimit
	// Random is the source of IDs, which are read from it one after another. nil means crypto/rand. Random must not fail.
	Random io.Reader
	// Seed adds the initial contents of the cloud; see SeedMetaKube.
	Seed func(*Cloud)
}

// Cloud is one simulated cloud. Create it with New.
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

// New creates a cloud. The cloud does not listen yet: see Start, Handler and RoundTripper.
func New(cfg Config) *Cloud {
	cfg.setDefaults()
	k := kernel.New(shifted{cfg.Clock, cfg.ClockAhead}, cfg.Random)
	c := &Cloud{cfg: cfg, kernel: k, quotas: quotas.New(cfg.Quota), rates: gate.NewRates(cfg.Clock, cfg.RateLimits), paces: gate.NewPaces(cfg.Paces)}
	c.quotas.Unified = cfg.UnifiedLimits
	c.newest, _ = api.ParseMicroversion(cfg.ComputeMicroversion)
	c.identity = keystone.New(k, keystone.Config{Regions: cfg.Regions, TokenTTL: cfg.TokenTTL, UnversionedCompute: cfg.UnversionedCompute})
	c.images = glance.New(k, c.identity)
	c.volumes = cinder.New(k, c.quotas, c.images)
	c.network = neutron.New(k, c.quotas, c.identity)
	c.inventory = inventory.New(k, c.quotas)
	c.compute = nova.New(k, nova.Neighbours{Quotas: c.quotas, Inventory: c.inventory, Network: c.network, Ports: c.network, Volumes: c.volumes, Images: c.images, Projects: c.identity}, nova.Config{
		BootTime: cfg.BootTime, ScheduleTime: *cfg.ScheduleTime, ClaimTime: cfg.ClaimTime, NetworkTime: cfg.NetworkTime, DeleteTime: cfg.DeleteTime, PowerTime: cfg.PowerTime,
		FaultsInLists: cfg.FaultsInLists, FirstOfTwoFails: cfg.FirstOfTwoFails, FailedBuildsLeaveVolumes: cfg.FailedBuildsLeaveVolumes, BaseURL: c.baseURL,
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

// shifted is a clock that is ahead of another one.
type shifted struct {
	clock.WithTicker
	ahead time.Duration
}

// Now returns the cloud's time, which is ahead of the clock that the test uses.
func (s shifted) Now() time.Time { return s.WithTicker.Now().Add(s.ahead) }

// Since returns the time that has passed since t, a time on the shifted clock.
func (s shifted) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// setDefaults sets the defaults of empty fields.
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

// Start listens on two free loopback ports, one for the API and one for the metadata service, until Close is called or ctx ends.
// It returns an error when Seed failed or when it cannot listen.
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

// Close closes the listeners, ends the calls that still wait, and stops all scheduled changes of the cloud.
func (c *Cloud) Close() {
	c.kernel.Close(func() {
		for _, s := range c.listeners {
			_ = s.Close()
		}
	})
}

// AuthURL returns the versioned URL of Keystone. Before Start the URL works only with RoundTripper and Transport.
func (c *Cloud) AuthURL() string { return c.baseURL() + "/identity/v3" }

func (c *Cloud) baseURL() string {
	if c.api == nil {
		return "http://openstack.invalid"
	}
	return "http://" + c.api.Addr().String()
}

// MetadataURL returns the URL of the metadata service; empty before Start. A request names its server in the header
// X-Instance-ID.
func (c *Cloud) MetadataURL() string {
	if c.metadata == nil {
		return ""
	}
	return "http://" + c.metadata.Addr().String()
}
