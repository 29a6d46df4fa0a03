// Package csr approves the certificate requests of drover's own nodes, and no others. The control plane signs.
//
// [Decide] holds every condition; the controller gathers what it decides by and writes the approval.
package csr

import (
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/drover-project/drover/machines/bootstrap"
)

// Outcome is what to do about a request.
type Outcome string

// The outcomes.
const (
	// Approve it.
	Approve Outcome = "Approve"
	// Deny it: it comes from a server of ours, and asks for what that server may not have.
	Deny Outcome = "Deny"
	// Ignore it: it is none of ours, or somebody has decided already.
	Ignore Outcome = "Ignore"
	// Wait: what it must be compared with is not known yet.
	Wait Outcome = "Wait"
)

// Verdict is an outcome and why.
type Verdict struct {
	Outcome Outcome
	Reason  string
}

func approve(format string, args ...any) Verdict {
	return Verdict{Approve, fmt.Sprintf(format, args...)}
}
func deny(format string, args ...any) Verdict   { return Verdict{Deny, fmt.Sprintf(format, args...)} }
func ignore(format string, args ...any) Verdict { return Verdict{Ignore, fmt.Sprintf(format, args...)} }
func await(format string, args ...any) Verdict  { return Verdict{Wait, fmt.Sprintf(format, args...)} }

// Names that a kubelet's certificate bears.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// Request is what a CertificateSigningRequest asks for, and who asks.
type Request struct {
	Signer, User string
	Groups       []string
	Usages       []certificatesv1.KeyUsage
	// Decided: it is approved, denied or failed already.
	Decided bool
	// Invalid says why the request itself cannot be read, or is not signed by its own key.
	Invalid error

	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	// Others counts the e-mail addresses and URIs among the alternative names, what else the subject holds, and other
	// extensions.
	Others int
}

// Machine is what is known of the Machine that a request is about. A nil Machine is not known.
type Machine struct {
	// ServerName is the name that the node must have.
	ServerName string
	// Group is the one that who comes with the Machine's bootstrap token must be in.
	Group    string
	Deleting bool
	// Joined: its Node is recorded.
	Joined bool
	// Ambiguous: another Machine's server has that name too, so that nobody can tell whose the node will be.
	Ambiguous bool
	// Server is the server's id; empty while it is not recorded.
	Server string
	// Addresses are the server's as the cloud gave them.
	Addresses []string
}

// Node is the Node of the name that a request bears. A nil Node does not exist.
type Node struct {
	// Server is the server's id in its provider ID; empty when it has none.
	Server string
}

// Decide is the whole of what may be approved: the first certificate of a server that is awaited, its renewal, and the
// serving certificate of a node for the names and addresses that the cloud gave its server (MC-58).
func Decide(r *Request, m *Machine, n *Node) Verdict {
	switch {
	case r.Decided:
		return ignore("decided already")
	case r.Signer == certificatesv1.KubeletServingSignerName:
		return decideServing(r, m, n)
	case r.Signer != certificatesv1.KubeAPIServerClientKubeletSignerName:
		return ignore("signer %s is none of ours", r.Signer)
	case strings.HasPrefix(r.User, bootstrap.UserPrefix):
		return decideFirst(r, m, n)
	case strings.HasPrefix(r.User, nodeUserPrefix):
		return decideRenewal(r, m, n)
	}
	return ignore("user %s is neither a node nor a bootstrap token", r.User)
}

// decideFirst: a server comes with its Machine's token, or with that of its deployment.
func decideFirst(r *Request, m *Machine, n *Node) Verdict {
	switch {
	case m == nil:
		return ignore("no living Machine has this token")
	case !slices.Contains(r.Groups, m.Group):
		return ignore("the token is not of the group %s", m.Group)
	case m.Deleting:
		return deny("the Machine of this token is being deleted")
	case m.Joined:
		return deny("the node of server %s has joined already, and renews its certificate under its own name", m.ServerName)
	case m.Ambiguous:
		return await("several Machines have a server of the name %s", m.ServerName)
	}
	if v, ok := checkClient(r, m.ServerName); !ok {
		return v
	}
	if v, ok := checkSameServer(m, n); !ok {
		return v
	}
	return approve("server %s is awaited", m.ServerName)
}

// checkSameServer: the Node of that name does not exist, or is that of this very server.
func checkSameServer(m *Machine, n *Node) (Verdict, bool) {
	switch {
	case n == nil:
		return Verdict{}, true
	case n.Server == "":
		return await("node %s exists and has no provider ID yet", m.ServerName), false
	case m.Server == "":
		return await("the server of node %s is not recorded yet", m.ServerName), false
	case n.Server != m.Server:
		return deny("node %s exists and is another server's", m.ServerName), false
	}
	return Verdict{}, true
}

// decideRenewal: the kubelet of a joined node wants another client certificate.
func decideRenewal(r *Request, m *Machine, n *Node) Verdict {
	if v, ok := checkNode(r, m); !ok {
		return v
	}
	if v, ok := checkClient(r, m.ServerName); !ok {
		return v
	}
	if v, ok := checkSameServer(m, n); !ok {
		return v
	}
	return approve("renewal for node %s", m.ServerName)
}

// decideServing: the kubelet of a joined node wants a certificate for its own server.
func decideServing(r *Request, m *Machine, n *Node) Verdict {
	if !strings.HasPrefix(r.User, nodeUserPrefix) {
		return ignore("user %s is no node", r.User)
	}
	if v, ok := checkNode(r, m); !ok {
		return v
	}
	if v, ok := checkSameServer(m, n); !ok {
		return v
	}
	if v, ok := checkSubject(r, m.ServerName); !ok {
		return v
	}
	if !onlyUsages(r.Usages, certificatesv1.UsageServerAuth) {
		return deny("usages %v: a serving certificate is for digital signature, key encipherment and server auth", r.Usages)
	}
	if len(r.DNSNames)+len(r.IPs) == 0 {
		return deny("the request names neither a host nor an address")
	}
	for _, name := range r.DNSNames {
		if name != m.ServerName && !slices.Contains(m.Addresses, name) {
			return unknownName(m, name)
		}
	}
	for _, ip := range r.IPs {
		if !hasIP(m.Addresses, ip) {
			return unknownName(m, ip.String())
		}
	}
	return approve("serving certificate of node %s", m.ServerName)
}

// unknownName: the Node may learn of an address before the cloud's list shows it, so this is no refusal for good.
func unknownName(m *Machine, name string) Verdict {
	return await("%s is neither the name nor a known address of server %s", name, m.ServerName)
}

// checkNode: the requester is the node of a joined, living Machine.
func checkNode(r *Request, m *Machine) (Verdict, bool) {
	switch {
	case !slices.Contains(r.Groups, nodesGroup):
		return ignore("user %s is not in the group %s", r.User, nodesGroup), false
	case m == nil:
		return ignore("%s is the node of no Machine", r.User), false
	case r.User != nodeUserPrefix+m.ServerName:
		return ignore("%s is not the node of server %s", r.User, m.ServerName), false
	case m.Deleting:
		return ignore("the Machine of %s is being deleted", r.User), false
	case !m.Joined:
		return await("the node of server %s is not recorded yet", m.ServerName), false
	}
	return Verdict{}, true
}

// checkClient: a client certificate for exactly that node, without any alternative name.
func checkClient(r *Request, node string) (Verdict, bool) {
	if v, ok := checkSubject(r, node); !ok {
		return v, false
	}
	switch {
	case !onlyUsages(r.Usages, certificatesv1.UsageClientAuth):
		return deny("usages %v: a client certificate is for digital signature, client auth and, if need be, key encipherment", r.Usages), false
	case len(r.DNSNames)+len(r.IPs) > 0:
		return deny("a client certificate has no alternative names"), false
	}
	return Verdict{}, true
}

// checkSubject: signed by its own key, and in the name of exactly that node.
func checkSubject(r *Request, node string) (Verdict, bool) {
	switch {
	case r.Invalid != nil:
		return deny("the request cannot be used: %v", r.Invalid), false
	case r.CommonName != nodeUserPrefix+node:
		return deny("common name %q: expected %q", r.CommonName, nodeUserPrefix+node), false
	case len(r.Organizations) != 1 || r.Organizations[0] != nodesGroup:
		return deny("organizations %q: expected %s alone", r.Organizations, nodesGroup), false
	case r.Others > 0:
		return deny("the request holds e-mail addresses, URIs, extensions or more of a subject than a node has"), false
	}
	return Verdict{}, true
}

// onlyUsages: digital signature and the purpose, with or without key encipherment, and nothing else.
func onlyUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) bool {
	allowed := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, purpose, certificatesv1.UsageKeyEncipherment}
	for _, u := range usages {
		if !slices.Contains(allowed, u) {
			return false
		}
	}
	return slices.Contains(usages, certificatesv1.UsageDigitalSignature) && slices.Contains(usages, purpose)
}

func hasIP(addresses []string, ip net.IP) bool {
	return slices.ContainsFunc(addresses, func(a string) bool {
		have := net.ParseIP(a)
		return have != nil && have.Equal(ip)
	})
}
