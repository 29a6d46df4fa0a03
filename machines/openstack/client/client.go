// Package client makes the calls to OpenStack: it signs in, picks microversions, keeps to the pace that each endpoint takes,
// and turns every failure into a class of package fault. Everything of drover that speaks to a cloud speaks through it.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Options say what a Client works with.
type Options struct {
	// Clock; default: the real one.
	Clock clock.WithDelayedExecution
	// HTTP carries the requests. Default: a transport whose steps have deadlines, and that connects to no loopback, link-local,
	// unspecified or multicast address which Allowed does not hold. It must be an *http.Transport when credentials have a CA
	// bundle.
	HTTP http.RoundTripper
	// Registry takes the metrics of the requests and of the limiter; nil: they are not registered.
	Registry prometheus.Registerer
	// ReadOnly refuses every request that would change something in the cloud. Signing in is allowed.
	ReadOnly bool
	// Configured is the URL of the configured cloud's Keystone. It is allowed, and its host whatever address it has. May be
	// empty.
	Configured string
	// Allowed are the endpoints to which sessions may be made beside the configured one.
	Allowed Endpoints
	// Wake has a Machine reconciled whose turn to make a call has come. It is required for calls that name a Machine.
	Wake func(types.NamespacedName)
	// Lease is looked at when a request is sent that changes something; nil: it is always fresh.
	Lease cloud.Lease
}

// Client makes sessions. What it learns about an endpoint (its pace, its microversions) is shared by all of them.
type Client struct {
	options  Options
	limits   *limits
	versions *versions
	metrics  *metrics
}

// New returns a Client. It makes no call. An error means that the metrics could not be registered.
func New(o Options) (*Client, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.HTTP == nil {
		o.HTTP = newDialer(o.Configured, o.Allowed).transport()
	}
	c := &Client{options: o, limits: newLimits(o.Clock, o.Wake), versions: newVersions(o.Clock)}
	var err error
	if c.metrics, err = newMetrics(o.Registry, c.limits); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// Forget drops what a Machine still waits for.
func (c *Client) Forget(machine types.UID) { c.limits.forget(machine) }

// Sweep drops what was last used before a time: the pace and the queues of endpoints, their microversions, and the counters of
// groups for which living is false.
func (c *Client) Sweep(before time.Time, living func(group string) bool) {
	c.limits.sweep(before)
	c.versions.sweep(before)
	c.metrics.sweep(before, living)
}

// Permits reports whether the URL of a Keystone is the configured cloud's or one of the allowed ones.
func (c *Client) Permits(endpoint string) bool {
	return c.options.Configured != "" && SameEndpoint(c.options.Configured, endpoint) || c.options.Allowed.Permits(endpoint)
}

// Session returns a new session of these credentials; it makes no call. The error is Auth: nobody has allowed the endpoint; or
// Invalid: it is not a URL, or the CA bundle holds no certificate.
func (c *Client) Session(creds Credentials) (*Session, error) {
	if !creds.Vouched && !c.Permits(creds.IdentityEndpoint) {
		return nil, fault.New(fault.Auth, fault.CodeEndpointNotAllowed, "the endpoint %s is not allowed", creds.conceal(creds.IdentityEndpoint))
	}
	client, err := c.httpClient(&creds)
	if err != nil {
		return nil, err
	}
	return newSession(creds, client, c.versions, c.options.Clock)
}

// httpClient returns a client that trusts the credentials' CA bundle beside the system's, and follows no redirect.
func (c *Client) httpClient(creds *Credentials) (http.Client, error) {
	next := c.options.HTTP
	if len(creds.CACert) > 0 {
		base, ok := next.(*http.Transport)
		if !ok {
			return http.Client{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "a CA bundle needs a transport that can take it")
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(creds.CACert) {
			return http.Client{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "the CA bundle of %s holds no certificate", creds.conceal(creds.IdentityEndpoint))
		}
		own := base.Clone()
		if own.TLSClientConfig == nil {
			own.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		own.TLSClientConfig.RootCAs = pool
		next = own
	}
	if c.options.ReadOnly {
		next = readOnly{next}
	}
	if c.options.Lease != nil {
		next = leased{next, c.options.Lease, c.options.Clock}
	}
	return http.Client{
		Transport:     &transport{next: next, limits: c.limits, metrics: c.metrics, clock: c.options.Clock},
		CheckRedirect: noRedirect,
	}, nil
}
