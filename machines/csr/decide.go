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
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/bootstrap"
)

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

// Verdict is an outcome and the reason for it. A check returns the zero value when the request passes it.
type Verdict struct {
	Outcome Outcome
	Reason  string
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
//
// While the inventory is incomplete, the server ID in the Machine's spec.providerID is enough for a renewal: the requester already has a
// certificate of that node, and nodes must survive an outage of the cloud. Everything else needs the server in the inventory.
func Decide(r *Request, f *Facts) Verdict {
	switch {
	case r.Decided:
		return ignore("the request is decided already")
	case r.SignerName == certificatesv1.KubeletServingSignerName:
		return decide(r, f, "serving certificate of node %s", checkNode, checkSubject, checkServing, checkContest, checkMarked, checkServer, checkHosts)
	case r.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName:
		return ignore("drover does not approve for signer %s", r.SignerName)
	case strings.HasPrefix(r.Username, bootstrap.UserPrefix):
		return decide(r, f, "server %s is expected to join", checkToken, checkSubject, checkClient, checkContest, checkMarked, checkServer, checkServerName)
	case strings.HasPrefix(r.Username, nodeUserPrefix):
		return decide(r, f, "renewal for node %s", checkNode, checkSubject, checkClient, checkContest, checkServer)
	}
	return ignore("user %s is neither a node nor a bootstrap token", r.Username)
}

// decide returns the verdict of the first check that the request does not pass. It approves a request that passes all checks, with the
// given reason. The first check requires that there is a Machine, and checkMarked that it has a server; the checks after them rely on it.
func decide(r *Request, f *Facts, reason string, checks ...func(*Request, *Facts) Verdict) Verdict {
	for _, check := range checks {
		if v := check(r, f); v != (Verdict{}) {
			return v
		}
	}
	return Verdict{Approve, fmt.Sprintf(reason, f.Machine.ServerName())}
}

// checkToken checks that the requester has the valid bootstrap token of a living Machine that has not joined and is not paused, or of its
// deployment.
func checkToken(r *Request, f *Facts) Verdict {
	switch m := f.Machine; {
	case m == nil:
		return ignore("no living Machine has this token")
	case !slices.Contains(r.Groups, f.Group):
		return ignore("the token is not in the group %s", f.Group)
	case m.DeletionTimestamp != nil:
		return deny("the Machine of this token is being deleted")
	case m.paused():
		return await("Machine %s is paused", m.key())
	case m.joined():
		return deny("the node of server %s has already joined, and needs no bootstrap token to renew its certificate", m.ServerName())
	case f.TokenExpired:
		return await("the token of Machine %s has expired", m.key())
	}
	return Verdict{}
}

// checkNode checks that the requester is the node of a joined, living Machine that is not paused.
func checkNode(r *Request, f *Facts) Verdict {
	switch m := f.Machine; {
	case !strings.HasPrefix(r.Username, nodeUserPrefix):
		return ignore("user %s is not a node", r.Username)
	case !slices.Contains(r.Groups, nodesGroup):
		return ignore("user %s is not in the group %s", r.Username, nodesGroup)
	case m == nil:
		return ignore("%s is not the node of a Machine", r.Username)
	case r.Username != nodeUserPrefix+m.ServerName():
		return ignore("%s is not the node of server %s", r.Username, m.ServerName())
	case m.DeletionTimestamp != nil:
		return ignore("the Machine of %s is being deleted", r.Username)
	case m.paused():
		return await("Machine %s is paused", m.key())
	case !m.joined():
		return await("the node of server %s is not recorded yet", m.ServerName())
	}
	return Verdict{}
}

// checkSubject checks that the request is signed by its own key, and that its subject is exactly the Machine's node.
func checkSubject(r *Request, f *Facts) Verdict {
	switch want := nodeUserPrefix + f.Machine.ServerName(); {
	case r.Invalid != nil:
		return deny("the request cannot be used: %v", r.Invalid)
	case r.Subject.CommonName != want:
		return deny("common name %q: expected %q", r.Subject.CommonName, want)
	case !slices.Equal(r.Subject.Organization, []string{nodesGroup}):
		return deny("organizations %q: expected only %s", r.Subject.Organization, nodesGroup)
	case r.Others > 0:
		return deny("the request has e-mail addresses, URIs, extensions or parts of a subject that a node does not have")
	}
	return Verdict{}
}

// checkClient checks that the request is for a client certificate without alternative names.
func checkClient(r *Request, _ *Facts) Verdict {
	switch {
	case !onlyUsages(r, certificatesv1.UsageClientAuth):
		return deny("usages %v: a client certificate is for digital signature, client auth and optionally key encipherment", r.Usages)
	case len(r.DNSNames)+len(r.IPAddresses) > 0:
		return deny("a client certificate has no alternative names")
	}
	return Verdict{}
}

// checkServing checks the conditions for a serving certificate that do not depend on the cloud.
func checkServing(r *Request, f *Facts) Verdict {
	switch {
	case !onlyUsages(r, certificatesv1.UsageServerAuth):
		return deny("usages %v: a serving certificate is for digital signature, key encipherment and server auth", r.Usages)
	case len(r.DNSNames)+len(r.IPAddresses) == 0:
		return deny("the request names neither a host nor an address")
	}
	for _, name := range r.DNSNames {
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			return deny("%q is not a host name in lower case", name)
		case f.Reserved.hasName(name):
			return deny("%q is a name of the API server or of Services, which no node may have", name)
		}
	}
	for _, ip := range r.IPAddresses {
		if why := f.Reserved.refuses(ip); why != "" {
			return deny("%s is %s, which no node may have", ip, why)
		}
	}
	return Verdict{}
}

// onlyUsages reports whether the usages are digital signature and the given purpose. Key encipherment is also allowed, but no other usage.
func onlyUsages(r *Request, purpose certificatesv1.KeyUsage) bool {
	return sets.New(r.Usages...).Delete(certificatesv1.UsageKeyEncipherment).Equal(sets.New(certificatesv1.UsageDigitalSignature, purpose))
}

// checkContest checks that the Machine may use the node name.
func checkContest(_ *Request, f *Facts) Verdict {
	if f.Contested != "" {
		return await("%s", f.Contested)
	}
	return Verdict{}
}

// checkMarked checks that the cloud's inventory has a server with the Machine's owner tag.
func checkMarked(_ *Request, f *Facts) Verdict {
	switch m := f.Machine; {
	case m.Server != nil:
		return Verdict{}
	case m.Unknown != "":
		return await("it is not known whether Machine %s has a server: %s", m.key(), m.Unknown)
	default:
		return await("the cloud has no server with the owner tag of Machine %s", m.key())
	}
}

// checkServer checks that the Machine's server is known, and that the Node of that name does not exist or runs on this server.
func checkServer(_ *Request, f *Facts) Verdict {
	switch id, node := f.Machine.serverID(), f.Machine.ServerName(); {
	case id == "":
		return await("the server of node %s is not known", node)
	case f.Node == nil:
		return Verdict{}
	case f.Node.Server == "":
		return await("node %s exists and has no provider ID yet", node)
	case f.Node.Server != id:
		return deny("node %s exists with the provider ID of another server", node)
	}
	return Verdict{}
}

// checkServerName checks that the server has the Machine's name in the cloud.
func checkServerName(_ *Request, f *Facts) Verdict {
	if s, want := f.Machine.Server, f.Machine.ServerName(); s.Name != want {
		return await("the name of server %s in the cloud is %q and not %q", s.ID, s.Name, want)
	}
	return Verdict{}
}

// checkHosts checks that the names and addresses belong to the Machine's server, and to no other Node.
func checkHosts(r *Request, f *Facts) Verdict {
	own := f.Machine.ServerName()
	for _, host := range r.hosts() {
		switch listed := host == own || hasHost(f.Machine.Server.Addresses, host); {
		case !listed && isName(host):
			return deny("%q is neither the name of server %s nor the value of its metadata key hostname", host, own)
		case !listed:
			// The Node can show an address before the cloud lists it, so drover does not deny the request.
			return await("the cloud shows no address %s for server %s", host, own)
		case f.Taken[host] != "":
			return await("%s is already a name or address of node %s", host, f.Taken[host])
		}
	}
	return Verdict{}
}
