package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// dialTimeout is the deadline for opening a connection. tlsTimeout is the deadline for its TLS handshake.
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// headTimeout is the deadline from sending a request to the end of the response headers. The rest of callTimeout is for the
	// body.
	headTimeout = 55 * time.Second
	// maxHead is the maximum size of the response headers, in bytes.
	maxHead = 64 << 10
	// idleConnection is how long an unused connection stays open, and idleConnections is how many may be open to one host. The requests of
	// several kinds may go to the same host.
	idleConnection  = 90 * time.Second
	idleConnections = 64
	// quietConnection is how long nothing arrives on an HTTP/2 connection until its other end is pinged, and pingTimeout is the deadline for
	// the answer. Without the ping, all calls would use a lost connection until the system gives it up,
	// about 15 minutes later.
	quietConnection = 15 * time.Second
	pingTimeout     = 10 * time.Second
)

// dialer opens connections to allowed addresses. It checks the resolved address, so that a host name cannot resolve to an address
// that the operator has not allowed.
type dialer struct {
	// configured is the host of the configured cloud, which is allowed whatever its address is. Empty means that there is no
	// configured cloud.
	configured string
	allowed    Endpoints
	dial       net.Dialer
	// environment returns the proxy that the environment variables set for a request; nil when they set none.
	environment func(*http.Request) (*url.URL, error)

	mu sync.Mutex
	// proxies are the hosts and ports of the proxies in the environment variables. They are allowed, because the operator has set
	// them.
	proxies map[string]bool
}

func newDialer(configured string, allowed Endpoints) *dialer {
	d := &dialer{allowed: allowed, dial: net.Dialer{Timeout: dialTimeout}, environment: http.ProxyFromEnvironment, proxies: map[string]bool{}}
	if u, err := url.Parse(configured); err == nil {
		d.configured = hostOf(u)
	}
	return d
}

// transport returns an HTTP transport that uses the dialer and has a deadline for each step of a request.
func (d *dialer) transport() *http.Transport {
	return &http.Transport{
		Proxy: d.proxy, DialContext: d.open, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleConnection,
		TLSHandshakeTimeout: tlsTimeout, ResponseHeaderTimeout: headTimeout, MaxResponseHeaderBytes: maxHead,
		HTTP2: &http.HTTP2Config{SendPingTimeout: quietConnection, PingTimeout: pingTimeout},
	}
}

// proxyPorts are the default ports of proxy URLs.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// proxy returns the proxy of a request, and records it as allowed. It returns an error for a request to a refused address.
func (d *dialer) proxy(req *http.Request) (*url.URL, error) {
	u, err := d.environment(req)
	if u == nil || err != nil {
		return u, err
	}
	if err := d.checkName(req.URL); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	port := u.Port()
	if port == "" {
		port = proxyPorts[u.Scheme]
	}
	d.proxies[net.JoinHostPort(u.Hostname(), port)] = true
	return u, nil
}

// checkName refuses a URL whose host is a refused address. Only literal addresses can be checked, because a proxy resolves names
// itself.
func (d *dialer) checkName(u *url.URL) error {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil || hostOf(u) == d.configured {
		return nil
	}
	port, err := strconv.ParseUint(portOf(u), 10, 16)
	if err != nil {
		return err
	}
	return d.check(netip.AddrPortFrom(addr, uint16(port)))
}

// open opens a connection. It returns a [fault.Error] of class Auth for a refused address.
func (d *dialer) open(ctx context.Context, network, to string) (net.Conn, error) {
	own := d.dial
	d.mu.Lock()
	trusted := d.proxies[to]
	d.mu.Unlock()
	if host, _, err := net.SplitHostPort(to); err == nil {
		trusted = trusted || d.configured != "" && hostOf(&url.URL{Host: net.JoinHostPort(host, "0")}) == d.configured
	}
	if !trusted {
		own.Control = func(_, address string, _ syscall.RawConn) error {
			dialled, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return d.check(dialled)
		}
	}
	return own.DialContext(ctx, network, to)
}

// check refuses a loopback, link-local, unspecified or multicast address that no operator has allowed, because services other
// than a cloud listen there.
func (d *dialer) check(to netip.AddrPort) error {
	addr := to.Addr().Unmap().WithZone("")
	kind := addressKind(addr)
	if kind == "" || d.allowed.permitsAddress(netip.AddrPortFrom(addr, to.Port())) {
		return nil
	}
	return fault.New(fault.Auth, fault.CodeEndpointNotAllowed,
		"%s is a %s address, to which drover sends nothing; if it is the address of a cloud, start drover with --allowed-endpoints=%s", addr, kind, addr)
}

// nat64 is the prefix of IPv6 addresses that contain an IPv4 address (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// addressKind returns the kind of an address that needs an operator's permission, such as loopback; empty for any other address.
func addressKind(addr netip.Addr) string {
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case addr.IsLoopback():
		return "loopback"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case addr.IsUnspecified(), addr.Is4() && addr.As4()[0] == 0:
		return "unspecified"
	case addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "multicast"
	}
	return ""
}
