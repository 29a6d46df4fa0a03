// Package client makes the calls to OpenStack: it signs in, picks microversions, keeps to the pace that each endpoint takes,
// and turns every failure into a class of package fault. Everything of drover that speaks to a cloud speaks through it.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Options say what a Client works with.
type Options struct {
	// Clock; default: the real one.
	Clock clock.Clock
	// HTTP carries the requests. Default: one like http.DefaultTransport. It must be an *http.Transport when credentials
	// have a CA bundle.
	HTTP http.RoundTripper
	// Registry takes the metrics of the requests and of the limiter; nil: they are not registered.
	Registry prometheus.Registerer
	// ReadOnly refuses every request that would change something in the cloud. Signing in is allowed.
	ReadOnly bool
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
		o.HTTP = defaultTransport()
	}
	c := &Client{options: o, limits: newLimits(o.Clock), versions: newVersions()}
	var err error
	if c.metrics, err = newMetrics(o.Registry, c.limits); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// Session returns a new session of these credentials; it makes no call. The error is Invalid: the endpoint is not a URL, or
// the CA bundle holds no certificate.
func (c *Client) Session(creds Credentials) (*Session, error) {
	client, err := c.httpClient(&creds)
	if err != nil {
		return nil, err
	}
	return newSession(creds, client, c.versions, c.options.Clock)
}

// defaultTransport keeps as many connections open as are used at a time.
func defaultTransport() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := base.Clone()
	own.MaxIdleConnsPerHost = mostConcurrent
	return own
}

// httpClient trusts the credentials' CA bundle beside the system's.
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
			return http.Client{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "the CA bundle of %s holds no certificate", creds.IdentityEndpoint)
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
	return http.Client{Transport: &transport{next: next, limits: c.limits, metrics: c.metrics, clock: c.options.Clock}}, nil
}
