// Package csr approves the certificate requests of drover's own nodes, and no others. The control plane signs the certificates.
//
// [Decide] checks all conditions of an approval, and [Choose] decides which of several Machines may use a node name. The controller
// collects the facts for both and writes the verdict.
package csr

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/bootstrap"
)

// Outcome is what to do about a request.
type Outcome string

// The outcomes.
const (
	// Approve means that drover approves the request.
	Approve Outcome = "Approve"
	// Deny means that drover denies the request: a server of this cluster requests a certificate that it must not get.
	Deny Outcome = "Deny"
	// Ignore means that the request does not concern a server of drover, or that it is already decided.
	Ignore Outcome = "Ignore"
	// Wait means that the request cannot be decided yet. drover writes nothing, and decides the request later.
	Wait Outcome = "Wait"
)

// Verdict is an outcome and the reason for it.
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

// The user name prefix and the group of a kubelet.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// Decide returns what to do about a request. It approves three kinds of requests: the first client certificate of a server that has yet to
// join, the renewal of a joined node's client certificate, and a joined node's serving certificate for its own name and the host name and
// addresses that the cloud's inventory has for its server (MC-58).
func Decide(r *Request, f *Facts) Verdict {
	switch {
	case r.Decided:
		return ignore("the request is decided already")
	case r.Signer == certificatesv1.KubeletServingSignerName:
		return decideServing(r, f)
	case r.Signer != certificatesv1.KubeAPIServerClientKubeletSignerName:
		return ignore("drover does not approve for signer %s", r.Signer)
	case strings.HasPrefix(r.User, bootstrap.UserPrefix):
		return decideFirst(r, f)
	case strings.HasPrefix(r.User, nodeUserPrefix):
		return decideRenewal(r, f)
	}
	return ignore("user %s is neither a node nor a bootstrap token", r.User)
}

// decideFirst decides about the first client certificate of a server. The request is made with the bootstrap token of the server's
// Machine or deployment. The server must be in the cloud's inventory.
func decideFirst(r *Request, f *Facts) Verdict {
	m := f.Machine
	switch {
	case m == nil:
		return ignore("no living Machine has this token")
	case !slices.Contains(r.Groups, f.Group):
		return ignore("the token is not in the group %s", f.Group)
	case m.Deleting:
		return deny("the Machine of this token is being deleted")
	case m.Paused:
		return await("Machine %s is paused", m.Key)
	case m.Joined:
		return deny("the node of server %s has already joined, and needs no bootstrap token to renew its certificate", m.ServerName)
	case f.TokenExpired:
		return await("the token of Machine %s has expired", m.Key)
	}
	if v, ok := checkClient(r, m.ServerName); !ok {
		return v
	}
	if v, ok := checkMarkedServer(f); !ok {
		return v
	}
	if m.Server.Name != m.ServerName {
		return await("the name of server %s in the cloud is %q and not %q", m.Server.ID, m.Server.Name, m.ServerName)
	}
	return approve("server %s is expected to join", m.ServerName)
}

// decideRenewal decides about another client certificate for a joined node. While the inventory is incomplete, the server ID in the
// Machine's spec.providerID is enough: the requester already has a certificate of that node, and nodes must survive an outage of
// the cloud.
func decideRenewal(r *Request, f *Facts) Verdict {
	if v, ok := checkNode(r, f.Machine); !ok {
		return v
	}
	if v, ok := checkClient(r, f.Machine.ServerName); !ok {
		return v
	}
	if v, ok := checkServer(f); !ok {
		return v
	}
	return approve("renewal for node %s", f.Machine.ServerName)
}

// decideServing decides about the serving certificate of a joined node.
func decideServing(r *Request, f *Facts) Verdict {
	if !strings.HasPrefix(r.User, nodeUserPrefix) {
		return ignore("user %s is not a node", r.User)
	}
	if v, ok := checkNode(r, f.Machine); !ok {
		return v
	}
	if v, ok := checkServingForm(r, f); !ok {
		return v
	}
	if v, ok := checkMarkedServer(f); !ok {
		return v
	}
	for _, host := range r.hosts() {
		switch other := f.Taken[host]; {
		case host != f.Machine.ServerName && !hasHost(f.Machine.Server.Addresses, host):
			if isName(host) {
				return deny("%q is neither the name of server %s nor the value of its metadata key hostname", host, f.Machine.ServerName)
			}
			// The Node can show an address before the cloud lists it, so drover does not deny the request.
			return await("the cloud shows no address %s for server %s", host, f.Machine.ServerName)
		case other != "":
			return await("%s is already a name or address of node %s", host, other)
		}
	}
	return approve("serving certificate of node %s", f.Machine.ServerName)
}

// checkServingForm checks the conditions for a serving certificate that do not depend on the cloud. When a condition is not met, it returns
// the denial and false.
func checkServingForm(r *Request, f *Facts) (Verdict, bool) {
	own := f.Machine.ServerName
	if v, ok := checkSubject(r, own); !ok {
		return v, false
	}
	switch {
	case !onlyUsages(r.Usages, certificatesv1.UsageServerAuth):
		return deny("usages %v: a serving certificate is for digital signature, key encipherment and server auth", r.Usages), false
	case len(r.DNSNames)+len(r.IPs) == 0:
		return deny("the request names neither a host nor an address"), false
	}
	for _, name := range r.DNSNames {
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			return deny("%q is not a host name in lower case", name), false
		case f.Reserved.hasName(name):
			return deny("%q is a name of the API server or of Services, which no node may have", name), false
		}
	}
	for _, ip := range r.IPs {
		if why := f.Reserved.refuses(ip); why != "" {
			return deny("%s is %s, which no node may have", ip, why), false
		}
	}
	return Verdict{}, true
}

// checkNode checks that the requester is the node of a joined, living Machine that is not paused.
func checkNode(r *Request, m *Machine) (Verdict, bool) {
	switch {
	case !slices.Contains(r.Groups, nodesGroup):
		return ignore("user %s is not in the group %s", r.User, nodesGroup), false
	case m == nil:
		return ignore("%s is not the node of a Machine", r.User), false
	case r.User != nodeUserPrefix+m.ServerName:
		return ignore("%s is not the node of server %s", r.User, m.ServerName), false
	case m.Deleting:
		return ignore("the Machine of %s is being deleted", r.User), false
	case m.Paused:
		return await("Machine %s is paused", m.Key), false
	case !m.Joined:
		return await("the node of server %s is not recorded yet", m.ServerName), false
	}
	return Verdict{}, true
}

// checkMarkedServer checks that the cloud's inventory has a server with the Machine's owner tag, and then does all checks of checkServer.
func checkMarkedServer(f *Facts) (Verdict, bool) {
	if m := f.Machine; f.Contested == "" && m.Server == nil {
		if m.Unknown != "" {
			return await("it is not known whether Machine %s has a server: %s", m.Key, m.Unknown), false
		}
		return await("the cloud has no server with the owner tag of Machine %s", m.Key), false
	}
	return checkServer(f)
}

// checkServer checks that the Machine may use the node name, and that the Node of that name does not exist or runs on the Machine's server.
func checkServer(f *Facts) (Verdict, bool) {
	m, n, id := f.Machine, f.Node, f.Machine.serverID()
	switch {
	case f.Contested != "":
		return await("%s", f.Contested), false
	case id == "":
		return await("the server of node %s is not known", m.ServerName), false
	case n == nil:
		return Verdict{}, true
	case n.Server == "":
		return await("node %s exists and has no provider ID yet", m.ServerName), false
	case n.Server != id:
		return deny("node %s exists with the provider ID of another server", m.ServerName), false
	}
	return Verdict{}, true
}

// checkClient checks that the request is for a client certificate of exactly the given node, without alternative names.
func checkClient(r *Request, node string) (Verdict, bool) {
	if v, ok := checkSubject(r, node); !ok {
		return v, false
	}
	switch {
	case !onlyUsages(r.Usages, certificatesv1.UsageClientAuth):
		return deny("usages %v: a client certificate is for digital signature, client auth and optionally key encipherment", r.Usages), false
	case len(r.DNSNames)+len(r.IPs) > 0:
		return deny("a client certificate has no alternative names"), false
	}
	return Verdict{}, true
}

// checkSubject checks that the request is signed by its own key, and that its subject is exactly the given node.
func checkSubject(r *Request, node string) (Verdict, bool) {
	switch {
	case r.Invalid != nil:
		return deny("the request cannot be used: %v", r.Invalid), false
	case r.CommonName != nodeUserPrefix+node:
		return deny("common name %q: expected %q", r.CommonName, nodeUserPrefix+node), false
	case len(r.Organizations) != 1 || r.Organizations[0] != nodesGroup:
		return deny("organizations %q: expected only %s", r.Organizations, nodesGroup), false
	case r.Others > 0:
		return deny("the request has e-mail addresses, URIs, extensions or parts of a subject that a node does not have"), false
	}
	return Verdict{}, true
}

// onlyUsages reports whether the usages are digital signature and the given purpose. Key encipherment is also allowed, but no
// other usage.
func onlyUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) bool {
	allowed := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, purpose, certificatesv1.UsageKeyEncipherment}
	for _, u := range usages {
		if !slices.Contains(allowed, u) {
			return false
		}
	}
	return slices.Contains(usages, certificatesv1.UsageDigitalSignature) && slices.Contains(usages, purpose)
}
