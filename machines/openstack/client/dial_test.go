package client

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestDialerConnectsOnlyToPermittedAddresses(t *testing.T) {
	inNAT64 := map[string]string{"64:ff9b::7f00:1": "127.0.0.1", "64:ff9b::a9fe:a9fe": "169.254.169.254"}
	for address, want := range map[string]string{
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "64:ff9b::7f00:1": "loopback",
		"169.254.169.254": "link-local", "fe80::1": "link-local", "64:ff9b::a9fe:a9fe": "link-local",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "255.255.255.255": "multicast",
		"10.0.0.1": "", "192.168.1.1": "", "203.0.113.7": "", "fd00::1": "", "2001:db8::1": "",
	} {
		name := "accepts the address " + address
		if want != "" {
			shown := address
			if v4 := inNAT64[address]; v4 != "" {
				shown = v4 + " in its NAT64 form " + address
			}
			name = "refuses the " + want + " address " + shown + " unless it is an allowed endpoint"
		}
		t.Run(name+" (F-9)", func(t *testing.T) {
			err := newDialer("", Endpoints{}).check(netip.AddrPortFrom(netip.MustParseAddr(address), 443))
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "a "+want+" address") {
				t.Errorf("got %v, want %q", err, want)
			}
			allowed, parseErr := ParseEndpoints([]string{address})
			if err := newDialer("", allowed).check(netip.AddrPortFrom(netip.MustParseAddr(address), 443)); err != nil || parseErr != nil {
				t.Errorf("it is on the list, and still: %v, %v", err, parseErr)
			}
		})
	}
}

func TestServiceCatalogWithARefusedAddress(t *testing.T) {
	c := newTestCloud(t, nil)
	s := newTestSession(t, Options{Configured: c.URL + "/v3"}, c.URL+"/v3")
	c.compute = "http://169.254.169.254/v2.1"
	err := get(t.Context(), s, "servers/a")
	t.Run("a compute endpoint at a link-local address gets no request (F-9)", func(t *testing.T) {
		if e := fault.Of(err); e == nil || e.Class != fault.Auth || e.Code != fault.CodeEndpointNotAllowed || !strings.Contains(e.Message, "169.254.169.254 is a link-local address") {
			t.Errorf("got %v", err)
		}
	})
}

func TestProxyFromTheEnvironment(t *testing.T) {
	d := newDialer("", Endpoints{})
	road := d.transport()
	proxy, err := url.Parse("http://proxy.example")
	if err != nil {
		t.Fatal(err)
	}
	d.environment = func(*http.Request) (*url.URL, error) { return proxy, nil }
	for target, want := range map[string]bool{
		"https://keystone.example/v3": true, "https://203.0.113.7/v3": true, "https://169.254.169.254/v3": false, "https://[::1]:5000/v3": false,
	} {
		name := "a request for " + target + " is refused even when a proxy is set"
		if want {
			name = "a request for " + target + " is sent to the proxy"
		}
		t.Run(name+" (F-9)", func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := road.Proxy(req); (err == nil) != want {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("the dialer does not restrict the address of the proxy (F-9)", func(t *testing.T) {
		if !d.proxies["proxy.example:80"] {
			t.Errorf("trusted are %v", d.proxies)
		}
	})
}
