// Package client makes the calls to OpenStack: it signs in, selects microversions, limits the request rate of each endpoint, and
// turns every failure into a class of package fault. All requests of drover to a cloud go through it.
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

// Options configure a Client.
type Options struct {
	// Clock defaults to the real clock.
	Clock clock.WithDelayedExecution
	// HTTP sends the requests. Default: a transport with deadlines for each step of a request, which connects to loopback,
	// link-local, unspecified and multicast addresses only if Allowed has them. It must be an *http.Transport when credentials have
	// a CA bundle.
	HTTP http.RoundTripper
	// Registry registers the metrics of the requests and of the limiter. nil means that they are not registered.
	Registry prometheus.Registerer
	// Observe puts the client into observe mode, unless it is nil: each request that would change a resource in the cloud is refused, and
	// passed to Observe. Signing in is allowed.
	Observe func(*http.Request)
	// Configured is the URL of the configured cloud's Keystone. It is allowed, whatever address its host has. It may be empty.
	Configured string
	// Allowed are the other endpoints that sessions may use.
	Allowed Endpoints
	// Wake enqueues a Machine whose turn to make a call has come. It is required for calls that are made for a Machine.
	Wake func(types.NamespacedName)
	// Lease is checked before each request that changes a resource. nil means that the lease is always fresh.
	Lease cloud.Lease
}

// Client creates sessions. They share what is known of an endpoint: its pause, its limits of requests in flight, and its microversions.
type Client struct {
	options  Options
	limiter  *limiter
	versions *versions
	metrics  *metrics
	unknown  *unknownTexts
}

// New returns a Client. It makes no call. It returns an error when the metrics cannot be registered.
func New(o Options) (*Client, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.HTTP == nil {
		o.HTTP = newDialer(o.Configured, o.Allowed).transport()
	}
	c := &Client{options: o, limiter: newLimiter(o.Clock, o.Wake), versions: newVersions(o.Clock), unknown: newUnknownTexts()}
	var err error
	if c.metrics, err = newMetrics(o.Registry, c.limiter, c.unknown.count); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// Forget removes the waiting requests of a Machine.
func (c *Client) Forget(machine types.UID) { c.limiter.forget(machine) }

// Sweep removes what was last used before the given time: the lines and microversions of endpoints, and the
// counters of groups for which living returns false.
func (c *Client) Sweep(before time.Time, living func(group string) bool) {
	c.limiter.sweep(before)
	c.versions.sweep(before)
	c.metrics.sweep(before, living)
}

// Permits reports whether drover may use a Keystone URL: it is that of the configured cloud, or an operator has allowed it.
func (c *Client) Permits(endpoint string) bool {
	return c.options.Configured != "" && SameEndpoint(c.options.Configured, endpoint) || c.options.Allowed.Permits(endpoint)
}

// Session returns a new session for these credentials; it makes no call. Errors: Auth when no operator has allowed the endpoint;
// Invalid when the endpoint is not a URL or the CA bundle has no certificate.
func (c *Client) Session(creds Credentials) (*Session, error) {
	if !creds.Vouched && !c.Permits(creds.IdentityEndpoint) {
		return nil, fault.New(fault.Auth, fault.CodeEndpointNotAllowed, "the endpoint %s is not allowed", creds.conceal(creds.IdentityEndpoint))
	}
	client, err := c.httpClient(&creds)
	if err != nil {
		return nil, err
	}
	return newSession(creds, client, c.versions, c.unknown, c.options.Clock)
}

// httpClient returns a client that trusts the credentials' CA bundle in addition to the system's, shows their client certificate, and
// follows no redirect.
func (c *Client) httpClient(creds *Credentials) (http.Client, error) {
	next := c.options.HTTP
	if len(creds.CACert)+len(creds.ClientCert) > 0 {
		base, ok := next.(*http.Transport)
		if !ok {
			return http.Client{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "the credentials have certificates, which need an *http.Transport, but Options.HTTP is a %T", next)
		}
		own, err := withCertificates(base, creds)
		if err != nil {
			return http.Client{}, err
		}
		next = own
	}
	next = guard{next: next, observe: c.options.Observe, lease: c.options.Lease, clock: c.options.Clock}
	return http.Client{
		Transport:     &transport{next: next, limiter: c.limiter, metrics: c.metrics, clock: c.options.Clock},
		CheckRedirect: noRedirect,
	}, nil
}

// withCertificates returns a copy of a transport with the certificates of the credentials.
func withCertificates(base *http.Transport, creds *Credentials) (*http.Transport, error) {
	own := base.Clone()
	if own.TLSClientConfig == nil {
		own.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if len(creds.CACert) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(creds.CACert) {
			return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "the CA bundle of %s holds no certificate", creds.conceal(creds.IdentityEndpoint))
		}
		own.TLSClientConfig.RootCAs = pool
	}
	if len(creds.ClientCert) > 0 {
		pair, err := tls.X509KeyPair(creds.ClientCert, creds.ClientKey)
		if err != nil {
			return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "the client certificate for %s: %v", creds.conceal(creds.IdentityEndpoint), err)
		}
		own.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return own, nil
}
