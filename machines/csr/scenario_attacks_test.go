package csr

import (
	"context"
	"crypto/x509"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// objectName returns the name of a subtest as a name for an object.
func objectName(subtest string) string {
	return strings.ReplaceAll(strings.ToLower(subtest), " ", "-")
}

func testDenied(p *plane) {
	m := p.machine("denied", "0a1b2c3d-0000-4000-8000-000000000010", nil, "")
	token, err := p.source.Tokens.Ensure(p.ctx, m)
	p.must(err)
	config := p.kube.ConfigForToken(token.String())
	for name, change := range map[string]func(*x509.CertificateRequest, *[]certificatesv1.KeyUsage){
		"the name of another node": func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) {
			r.Subject.CommonName = "system:node:other"
		},
		"the name of a user": func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) {
			r.Subject.CommonName = "kubernetes-admin"
		},
		"a second organization": func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		},
		"an organizational unit": func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) {
			r.Subject.OrganizationalUnit = []string{"x"}
		},
		"a host name": func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) { r.DNSNames = []string{"denied"} },
		"an IP address": func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) {
			r.IPAddresses = []net.IP{net.ParseIP("10.0.0.5")}
		},
		"a URI": func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) {
			r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}}
		},
		"an e-mail address":     func(r *x509.CertificateRequest, _ *[]certificatesv1.KeyUsage) { r.EmailAddresses = []string{"a@b"} },
		"the usage server auth": func(_ *x509.CertificateRequest, u *[]certificatesv1.KeyUsage) { *u = append(*u, serving) },
	} {
		p.within("a request with "+name+" is denied", func(p *plane) {
			template, usages := nodeRequest("denied"), []certificatesv1.KeyUsage{sign, auth}
			change(template, &usages)
			what := withToken("", "denied")
			what.request, what.usages = template, usages
			p.wants(certificatesv1.CertificateDenied, p.ask(config, "denied-"+objectName(name), what))
		})
	}
}

// joinedNode creates a Machine whose Node is registered. The Machine's status records the Node and the addresses.
func (p *plane) joinedNode(name, server string, addresses ...corev1.NodeAddress) *v1alpha1.Machine {
	p.Helper()
	m := p.machine(name, server, nil, "")
	p.register(name, "openstack:///"+server)
	p.joined(m, addresses...)
	return m
}

// register creates a Node and waits until drover's cache shows it.
func (p *plane) register(name, providerID string) {
	p.Helper()
	p.must(p.client.Create(p.ctx, node(name, providerID)))
	p.until("the cache has node "+name, func() bool {
		return p.mgr.GetClient().Get(p.ctx, types.NamespacedName{Name: name}, &corev1.Node{}) == nil
	})
}

func testExpiredToken(p *plane) {
	m := p.machine("expired", "0a1b2c3d-0000-4000-8000-000000000040", nil, "")
	token, err := p.source.Tokens.Ensure(p.ctx, m)
	p.must(err)
	config := p.kube.ConfigForToken(token.String())
	p.wants(certificatesv1.CertificateApproved, p.ask(config, "expired-before", withToken("", "expired")))
	refused := func(name string) {
		p.Helper()
		err := wait.PollUntilContextTimeout(p.ctx, 250*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			name += "-again"
			return apierrors.IsUnauthorized(p.request(config, name, withToken("", "expired"))), nil
		})
		if err != nil {
			p.Fatalf("waiting until the API server refuses the token: %v", err)
		}
	}
	var s corev1.Secret
	p.must(p.client.Get(p.ctx, types.NamespacedName{Namespace: "kube-system", Name: "bootstrap-token-" + token.ID}, &s))
	s.Data["expiration"] = []byte("2026-01-02T03:04:05Z")
	p.must(p.client.Update(p.ctx, &s))
	refused("expired")
	p.must(client.IgnoreNotFound(p.client.Delete(p.ctx, &s)))
	refused("deleted")
}

func testCompromisedKubelet(p *plane) {
	p.joinedNode("broken", "0a1b2c3d-0000-4000-8000-000000000050")
	p.joinedNode("bystander", "0a1b2c3d-0000-4000-8000-000000000051")
	p.machine("expected", "0a1b2c3d-0000-4000-8000-000000000052", nil, "")
	kubelet := p.asKubelet("broken")
	for name, what := range map[string]attempt{
		"a certificate of an administrator":                     asNode("broken", "broken").with(masters),
		"a client certificate with the usage server auth":       asNode("broken", "broken").with(func(a *attempt) { a.usages = append(a.usages, serving) }),
		"a serving certificate with the name of the API server": toServe("broken", "broken", "kubernetes.default.svc"),
	} {
		p.within("a request for "+name+" is denied (MC-58)", func(p *plane) {
			p.wants(certificatesv1.CertificateDenied, p.ask(kubelet, "broken-"+objectName(name), what))
		})
	}
	for name, what := range map[string]attempt{
		"the certificate of another node":                     asNode("broken", "bystander"),
		"the certificate of a server that has not joined yet": asNode("broken", "expected"),
		"a serving certificate of another node":               toServe("broken", "bystander", "10.0.0.5"),
	} {
		p.within("a request for "+name+" is refused by the API server's NodeRestriction (MC-58)", func(p *plane) {
			if err := p.request(kubelet, "broken-"+objectName(name), what); !apierrors.IsForbidden(err) {
				p.Errorf("got error %v, want Forbidden", err)
			}
		})
	}
	foreign := p.ask(kubelet, "broken-foreign-address", toServe("broken", "broken", "10.0.0.6"))
	p.wants(certificatesv1.CertificateApproved, p.ask(kubelet, "broken-renewal", asNode("broken", "broken")))
	p.wants(certificatesv1.CertificateApproved, p.ask(kubelet, "broken-serving", toServe("broken", "broken", "broken", "10.0.0.5")))
	if kind, why := foreign(); kind != "" {
		p.Errorf("a request for an address of another server was decided: %s %s", kind, why)
	}
}

func testForgedAddresses(p *plane) {
	forged := []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "kubernetes.default.svc"}, {Type: corev1.NodeInternalIP, Address: "10.96.0.1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.66"},
	}
	m := p.joinedNode("forged", "0a1b2c3d-0000-4000-8000-000000000060", forged...)
	// The attacker's own cloud lists addresses of Services and of the API server.
	p.servers.add(m, "0a1b2c3d-0000-4000-8000-000000000060", "10.0.0.5", "10.96.0.1", "10.96.7.7", "192.0.2.10")
	kubelet := p.asKubelet("forged")
	statusOnly := p.ask(kubelet, "forged-status-only", toServe("forged", "forged", "10.0.0.66"))
	for name, host := range map[string]string{"name": "kubernetes.default.svc", "kubernetes-service": "10.96.0.1", "service-range": "10.96.7.7", "api-server": "192.0.2.10"} {
		p.wants(certificatesv1.CertificateDenied, p.ask(kubelet, "forged-"+name, toServe("forged", "forged", host)))
	}
	p.wants(certificatesv1.CertificateApproved, p.ask(kubelet, "forged-own", toServe("forged", "forged", "forged", "10.0.0.5")))
	base := m.DeepCopy()
	annotated(v1alpha1.AnnotationPaused)(m)
	p.must(p.client.Patch(p.ctx, m, client.MergeFrom(base)))
	p.seen(m)
	paused := p.ask(kubelet, "forged-paused", toServe("forged", "forged", "forged", "10.0.0.5"))
	p.joinedNode("unforged", "0a1b2c3d-0000-4000-8000-000000000061")
	p.wants(certificatesv1.CertificateApproved, p.ask(p.asKubelet("unforged"), "unforged", toServe("unforged", "unforged", "10.0.0.5")))
	for name, decided := range map[string]func() (certificatesv1.RequestConditionType, string){
		"a request for an address that only the Node's status reports is neither approved nor denied": statusOnly,
		"a request of a paused Machine's Node is neither approved nor denied":                         paused,
	} {
		if kind, why := decided(); kind != "" {
			p.Errorf("%s: got %s %s", name, kind, why)
		}
	}
}

func testSquatter(p *plane) {
	victim := p.machine("squatted", "0a1b2c3d-0000-4000-8000-000000000070", nil, "")
	squatter := machineNamed("kube-system", "squatter", serverNamed("squatted"), annotated(v1alpha1.AnnotationPausedCAPI))
	squatter.UID, squatter.Spec.ProviderID = "", nil
	squatter.Spec.Versions.Kubelet = "1.37.1"
	p.must(p.client.Create(p.ctx, squatter))
	p.seen(squatter)
	tokenOf := func(m *v1alpha1.Machine) bootstrap.Token {
		token, err := p.source.Tokens.Ensure(p.ctx, m)
		p.must(err)
		return token
	}
	stolen := p.ask(p.kube.ConfigForToken(tokenOf(squatter).String()), "squatter-first", withToken("", "squatted"))
	p.wants(certificatesv1.CertificateApproved, p.ask(p.kube.ConfigForToken(tokenOf(victim).String()), "squatted-first", withToken("", "squatted")))
	p.register("squatted", "openstack:///0a1b2c3d-0000-4000-8000-000000000070")
	p.joined(victim)
	kubelet := p.asKubelet("squatted")
	p.wants(certificatesv1.CertificateApproved, p.ask(kubelet, "squatted-renewal", asNode("squatted", "squatted")))
	p.wants(certificatesv1.CertificateApproved, p.ask(kubelet, "squatted-serving", toServe("squatted", "squatted", "squatted", "10.0.0.5")))
	if kind, why := stolen(); kind != "" {
		p.Errorf("the squatter's request was decided: %s %s", kind, why)
	}
	p.until("the squatter has an Event", func() bool {
		var list eventsv1.EventList
		p.must(p.client.List(p.ctx, &list, client.InNamespace("kube-system")))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == reasonNameTaken && e.Regarding.Name == "squatter" && e.Regarding.UID == squatter.UID
		})
	})
}
