package client

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Endpoints is a list of endpoints that an operator allows. The zero value allows none.
type Endpoints struct{ all []allowedEndpoint }

// allowedEndpoint is an item of [Endpoints]. An empty scheme, port or path means any.
type allowedEndpoint struct{ scheme, host, port, path string }

// ParseEndpoints parses a list of items of the form host, host:port, or a URL prefix: https://host, https://host:port/path. An IPv6
// address with a port must be in brackets. The error names every invalid item.
func ParseEndpoints(list []string) (Endpoints, error) {
	var out Endpoints
	var wrong []string
	for _, item := range list {
		e, ok := parseEndpoint(strings.TrimSpace(item))
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%q", item))
			continue
		}
		out.all = append(out.all, e)
	}
	if len(wrong) > 0 {
		return Endpoints{}, fmt.Errorf("reading the allowed endpoints: %s: use host, host:port or a URL prefix such as https://keystone.example:5000/v3",
			strings.Join(wrong, ", "))
	}
	return out, nil
}

func parseEndpoint(item string) (allowedEndpoint, bool) {
	if !strings.Contains(item, "://") {
		if addr, err := netip.ParseAddr(strings.Trim(item, "[]")); err == nil {
			return allowedEndpoint{host: addr.Unmap().String()}, true
		}
		item = "//" + item
	}
	u, err := url.Parse(item)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(u.Host, " ,*") ||
		strings.HasSuffix(u.Host, ":") {
		return allowedEndpoint{}, false
	}
	if u.Scheme == "" && u.Path != "" || !slices.Contains([]string{"", "http", "https"}, strings.ToLower(u.Scheme)) {
		return allowedEndpoint{}, false
	}
	e := allowedEndpoint{scheme: strings.ToLower(u.Scheme), host: hostOf(u), port: u.Port(), path: withoutVersion(u.Path)}
	if e.scheme != "" {
		e.port = portOf(u)
	}
	return e, true
}

// Permits reports whether a URL is on the list.
func (e Endpoints) Permits(endpoint string) bool {
	u, err := url.Parse(strings.TrimSpace(endpoint))
	if err != nil || u.User != nil || u.RawQuery != "" || strings.Contains(u.Path, "..") {
		return false
	}
	return slices.ContainsFunc(e.all, func(a allowedEndpoint) bool { return a.permits(u) })
}

func (a allowedEndpoint) permits(u *url.URL) bool {
	path := withoutVersion(u.Path)
	return a.host == hostOf(u) &&
		(a.scheme == "" || a.scheme == strings.ToLower(u.Scheme)) &&
		(a.port == "" || a.port == portOf(u)) &&
		(a.path == "" || path == a.path || strings.HasPrefix(path, a.path+"/"))
}

// permitsAddress reports whether the list has this IP address. A host name that resolves to it does not count.
func (e Endpoints) permitsAddress(to netip.AddrPort) bool {
	port := fmt.Sprint(to.Port())
	return slices.ContainsFunc(e.all, func(a allowedEndpoint) bool {
		return a.host == to.Addr().String() && (a.port == "" || a.port == port)
	})
}

// hostOf returns the host of a URL in the form that comparisons use.
func hostOf(u *url.URL) string {
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return addr.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case strings.EqualFold(u.Scheme, "http"):
		return "80"
	}
	return "443"
}

// withoutVersion returns a path without trailing slashes and without Keystone's version.
func withoutVersion(path string) string {
	return strings.TrimSuffix(strings.TrimRight(path, "/"), "/v3")
}

// Location returns the part of an endpoint that messages and the flag --allowed-endpoints may show: scheme, host, port and path. It
// is empty for a text that is not an HTTP URL.
func Location(endpoint string) string {
	u, err := url.Parse(strings.TrimSpace(endpoint))
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https"}, strings.ToLower(u.Scheme)) {
		return ""
	}
	host := hostOf(u)
	switch {
	case u.Port() != "":
		host = net.JoinHostPort(host, u.Port())
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return (&url.URL{Scheme: strings.ToLower(u.Scheme), Host: host, Path: withoutVersion(u.Path)}).String()
}
