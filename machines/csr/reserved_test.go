package csr

import (
	"net"
	"net/netip"
	"testing"
)

func TestCertificatesWithAnAddressOrANameThatNoNodeMayHaveAreRefused(t *testing.T) {
	r := Reserved{Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("192.0.2.1/32")}, Names: []string{"api.example.com"}, Domain: "cluster.local"}
	for address, want := range map[string]string{
		"10.0.0.5": "", "fd00::5": "", "198.51.100.7": "", "10.97.0.1": "",
		"10.96.0.1": "in the Service range 10.96.0.0/16", "::ffff:10.96.0.1": "in the Service range 10.96.0.0/16",
		"192.0.2.1": "an address of the API server",
		"127.0.0.1": "a loopback address", "127.9.9.9": "a loopback address", "::1": "a loopback address", "::ffff:127.0.0.1": "a loopback address",
		"169.254.169.254": "a link-local address", "fe80::1": "a link-local address",
		"0.0.0.0": "the unspecified address", "::": "the unspecified address",
		"224.0.0.1": "a multicast address", "ff02::1": "a multicast address", "ff01::1": "a multicast address",
	} {
		if got := r.refuses(net.ParseIP(address)); got != want {
			t.Errorf("refuses(%s) = %q, want %q", address, got, want)
		}
	}
	if r.refuses(net.IP{1, 2}) == "" {
		t.Error("addressOf() accepts two bytes as an address")
	}
	for host, want := range map[string]bool{
		"node-1": false, "node-1.example.com": false, "svc": false, "kubernetes-1": false,
		"kubernetes": true, "kubernetes.default": true, "kubernetes.default.svc": true, "webhook.ns.svc": true, "webhook.ns.svc.cluster.local": true,
		"localhost": true, "a.localhost": true, "api.example.com": true, "API.example.com.": true, "KUBERNETES.default.SVC": true,
	} {
		if got := r.hasName(host); got != want {
			t.Errorf("name %s: got reserved %v, want %v", host, got, want)
		}
	}
}
