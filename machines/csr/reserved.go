package csr

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Reserved holds what a serving certificate may never contain, whatever the cloud lists. In addition, loopback, link-local, unspecified
// and multicast addresses, names of localhost, and the names of the Service kubernetes are always reserved.
type Reserved struct {
	// Ranges holds the addresses of Services and of the API server.
	Ranges []netip.Prefix
	// Names holds host names of the API server, in lower case.
	Names []string
	// Domain is the domain of Services, such as cluster.local.
	Domain string
}

// refuses describes why no node may have a certificate for an address. It returns "" for any other address.
func (r *Reserved) refuses(ip net.IP) string {
	address, ok := addressOf(ip)
	switch {
	case !ok:
		return "not an IP address"
	case address.IsUnspecified():
		return "the unspecified address"
	case address.IsLoopback():
		return "a loopback address"
	case address.IsMulticast():
		return "a multicast address"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	}
	for _, p := range r.Ranges {
		switch {
		case !p.Contains(address):
		case p.IsSingleIP():
			return "an address of the API server"
		default:
			return "in the Service range " + p.String()
		}
	}
	return ""
}

// hasName reports whether a host name is reserved.
func (r *Reserved) hasName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case name == "localhost", name == "kubernetes", name == "kubernetes.default", slices.Contains(r.Names, name):
		return true
	case r.Domain != "" && strings.HasSuffix(name, ".svc."+strings.ToLower(r.Domain)):
		return true
	}
	return strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".localhost")
}
