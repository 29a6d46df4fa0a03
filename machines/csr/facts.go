package csr

import (
	"net"
	"net/netip"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// Request holds what a CertificateSigningRequest requests, and the user that made it.
type Request struct {
	Signer, User string
	Groups       []string
	Usages       []certificatesv1.KeyUsage
	// Decided is true when the request is already approved, denied or failed.
	Decided bool
	// Invalid is the error when the request cannot be read, or is not signed by its own key; nil when the request is valid.
	Invalid error

	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	// Others counts the e-mail addresses and URIs among the alternative names, further parts of the subject, and other
	// extensions.
	Others int
}

// Facts holds the facts with which a request is compared.
type Facts struct {
	// Machine is the Machine that the request is about; nil when none is known.
	Machine *Machine
	// Group is the group in which the holder of the Machine's bootstrap token must be. TokenExpired is true when the token has expired
	// since the request was made. Both are zero for requests without a token.
	Group        string
	TokenExpired bool
	// Node is the Node with the Machine's server name; nil when it does not exist.
	Node *Node
	// Contested describes why the Machine may not use the node name; empty when it may.
	Contested string
	// Reserved holds what a serving certificate may never contain. It is set for serving requests only.
	Reserved Reserved
	// Taken holds the requested names and addresses that belong to another Node, each with the name of that Node. It is set for serving
	// requests only.
	Taken map[string]string
}

// Machine holds what is known about one Machine.
type Machine struct {
	Key types.NamespacedName
	UID types.UID
	// ServerName is the name that the node must have.
	ServerName       string
	Deleting, Paused bool
	// Created is when the Machine was created.
	Created time.Time
	// Joined is true when the Machine's status names a Node with the name ServerName.
	Joined bool
	// Recorded is the server that spec.providerID names; empty when it names none.
	Recorded cloud.ServerID
	// Server is the server whose owner tag names this Machine, from the cloud's inventory; nil when there is none or the inventory is
	// incomplete.
	Server *cloud.Server
	// Unknown describes why the inventory does not show whether there is a server; empty when the inventory is complete.
	Unknown string

	// node is the UID of the Node in the Machine's status.
	node types.UID
}

// Node is the Node with a Machine's server name.
type Node struct {
	// Server is the server that the Node's provider ID names; empty while the Node has no provider ID that names one.
	Server cloud.ServerID
	// Created is when the Node registered.
	Created time.Time

	// uid is the Node's UID. ofMachine is the UID in a provider ID that machine-controller has made; empty for any other.
	uid, ofMachine types.UID
}

// serverID returns the Machine's server: the server with the Machine's owner tag, or else, while the inventory is incomplete, the
// server that spec.providerID names. It returns "" when there is neither. It ignores spec.providerID of a paused Machine, because
// drover does not maintain that field.
func (m *Machine) serverID() cloud.ServerID {
	switch {
	case m.Server != nil:
		return m.Server.Key
	case m.Unknown != "" && !m.Paused:
		return m.Recorded
	}
	return ""
}

// hosts returns the names and addresses in the request. Addresses have the form that netip.Addr prints, so that texts can be compared.
func (r *Request) hosts() []string {
	all := slices.Clone(r.DNSNames)
	for _, ip := range r.IPs {
		address, _ := addressOf(ip)
		all = append(all, address.String())
	}
	return all
}

// isName reports whether a host is a name, and not an address.
func isName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil
}

// hasHost reports whether a name or address is among those of a server or Node. An address must have the type of an address there.
func hasHost(all []corev1.NodeAddress, host string) bool {
	return slices.ContainsFunc(all, func(a corev1.NodeAddress) bool {
		switch a.Type {
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			have, err := netip.ParseAddr(a.Address)
			return err == nil && have.Unmap().String() == host
		}
		return isName(host) && a.Address == host
	})
}

// addressOf returns an address of a request. An IPv4 address in IPv6 form becomes an IPv4 address. The second result is false when ip is
// not an address.
func addressOf(ip net.IP) (netip.Addr, bool) {
	address, ok := netip.AddrFromSlice(ip)
	return address.Unmap(), ok
}
