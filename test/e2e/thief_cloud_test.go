//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

// hanging is the number of clouds of the author that never answer, all used at the same time.
const hanging = 10

// mallory returns the attacker's own credentials for an endpoint, as fields of a provider spec.
func mallory(endpoint string) map[string]any {
	return map[string]any{
		"identityEndpoint": endpoint, "username": malloryUser, "password": malloryPassword,
		"domainName": openstack.MetaKubeDomain, "projectName": openstack.MetaKubeProject, "serverGroupID": nil, "floatingIpPool": nil,
	}
}

// at returns a function that makes an attempt by creating a Machine in the attacker's cloud with the given
// misbehaviour.
func at(behaviour string) func(*world, attempt) error {
	return forge(func(w *world, m *v1alpha1.Machine) { cloudSpec(&m.Spec, mallory(w.enemy.keystone(behaviour))) })
}

// cloudAttempts returns the attacks that a cloud makes by its answers to drover.
func cloudAttempts() []attempt {
	return []attempt{
		{by: aCloud, to: "end drover: the catalog names a host that is not text", finding: "F-8", stop: product, try: at("unreadable")},
		{by: aCloud, to: "occupy all workers: ten Keystones that never answer", finding: "F-14", stop: product, slow: true,
			try: func(w *world, a attempt) error {
				for i := range hanging {
					err := w.machine(fmt.Sprintf("%s-%d", a.key(), i), func(m *v1alpha1.Machine) {
						cloudSpec(&m.Spec, mallory(w.enemy.keystone(fmt.Sprintf("hangs-%d", i))))
					})
					if err != nil {
						return err
					}
				}
				return nil
			}},
		{by: aCloud, to: "fill the memory: a sign-in is answered with 1.5 GiB", finding: "F-8", stop: product, try: at("huge")},
		{by: aCloud, to: "fill the memory: a list of servers never ends", finding: "F-8", stop: product, try: at("endless")},
		{by: aCloud, to: "end drover: a sign-in is answered with 100 000 open braces", finding: "F-8", stop: product, try: at("garbage")},
		{by: aCloud, to: "reach a service inside: a sign-in is answered with a redirect", finding: "F-9", stop: product, try: at("redirects")},
		{by: aCloud, to: "reach a service inside: the catalog names it", finding: "F-9", stop: product, try: at("inside")},
		{by: aCloud, to: "have drover sign in without end: every answer is 401", finding: "F-23", stop: product, try: at("storm")},
		{by: aCloud, to: "stop drover for a day: an answer has Retry-After 86400", finding: "F-26", stop: product, slow: true, try: at("later")},
	}
}

// liar returns a function that makes an attempt by creating a Machine, and makes the attacker's cloud lie about a
// server. name returns the name of that server. An empty name means the Machine's own server.
func liar(name func(*world) string, about func(*world) lie) func(*world, attempt) error {
	return func(w *world, a attempt) error {
		l, server := about(w), name(w)
		if l.server = server; server == "" {
			l.server = a.key()
		}
		w.enemy.tell(a.key(), l)
		return w.machine(a.key(), func(m *v1alpha1.Machine) {
			m.Spec.Metadata.Name = server
			cloudSpec(&m.Spec, mallory(w.enemy.keystone(a.key())))
		})
	}
}

// nodeClaimAttempts returns the attacks in which the attacker's cloud lists Nodes and servers of others as its own.
func nodeClaimAttempts() []attempt {
	unnamed := func(*world) string { return "" }
	constant := func(name string) func(*world) string { return func(*world) string { return name } }
	theVictims := func(w *world) string { return w.victim.ServerName() }
	return []attempt{
		{by: aCloud, to: "have the control plane's Node drained and deleted: the cloud lists its server's ID", finding: "F-4", stop: product,
			try: liar(unnamed, func(w *world) lie { return lie{id: w.others.controlPlane} })},
		{by: aCloud, to: "have the control plane's Node drained and deleted: the cloud lists its server's ID and name", finding: "F-4", stop: product,
			try: liar(constant(controlPlane), func(w *world) lie { return lie{id: w.others.controlPlane} })},
		{by: aCloud, to: "have an older Node drained and deleted: the cloud lists its server's ID and name", finding: "F-4", stop: product,
			try: liar(constant(byHand), func(w *world) lie { return lie{id: w.others.byHand} })},
		{by: aCloud, to: "have another group's Node drained and deleted: the cloud lists its server's ID and name", finding: "F-4", stop: product,
			try: liar(theVictims, func(w *world) lie { return lie{id: theVictim(w)} })},
		{by: aCloud, to: "have a Node without a provider ID drained and deleted: the cloud lists its name and address", finding: "F-4", stop: product,
			try: liar(constant(edge), func(*world) lie { return lie{address: edgeAddress} })},
		{by: aCloud, to: "have another group's server counted as gone: the cloud lists its ID as DELETED", finding: "F-15", stop: product,
			try: liar(unnamed, func(w *world) lie { return lie{id: theVictim(w), deleted: true} })},
		{by: aCloud, to: "have all servers of the configured cloud counted as gone: Keystone has the ID of its project", finding: "F-15", stop: product,
			try: liar(unnamed, func(w *world) lie {
				return lie{id: theVictim(w), deleted: true, project: w.s.Cloud.AddProject(openstack.MetaKubeProject, "")}
			})},
		{by: aCloud, to: "get a serving certificate for another Node's address: the cloud lists it for his own server", finding: "F-2", stop: product,
			try: addressOfAnother},
	}
}

// addressOfAnother makes the attacker's own Node join with the bootstrap token from the user data that his cloud
// received. The kubelet of this Node then requests a serving certificate for addresses that his cloud lists.
func addressOfAnother(w *world, a attempt) error {
	own := func(*world) string { return "" }
	if err := liar(own, func(w *world) lie { return lie{address: w.victimAddress()} })(w, a); err != nil {
		return err
	}
	name := a.key()
	var server openstack.Server
	eventually(w.T, func(context.Context) (string, error) {
		for _, s := range w.enemy.cloud.Servers() {
			if s.Name == name && s.Status == "ACTIVE" {
				server = s
				return "", nil
			}
		}
		return "a server in the attacker's cloud", nil
	})
	token := w.joinTokenOf(server.UserData)
	as, err := client.New(w.s.Cluster.ConfigForToken(token), client.Options{Scheme: sandbox.Scheme()})
	w.must(err)
	w.must(w.request(as, name+"-first", identity(name)))
	kubelet := w.as("system:node:"+name, "system:nodes")
	w.must(kubelet.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + server.ID}}))
	eventually(w.T, func(ctx context.Context) (string, error) {
		var m v1alpha1.Machine
		if err := w.s.Client.Get(ctx, client.ObjectKey{Namespace: tenant, Name: name}, &m); err != nil || m.Status.NodeRef != nil {
			return "", err
		}
		return "the attacker's Machine to have its Node", nil
	})
	return w.ask(kubelet, a, serving(name, name, w.victimAddress()))
}

// endpointAttempts returns the attacks that try to send drover's requests or credentials to a wrong destination.
func endpointAttempts() []attempt {
	named := func(endpoint func(*world) string, changes map[string]any) func(*world, attempt) error {
		return forge(func(w *world, m *v1alpha1.Machine) {
			spec := mallory(endpoint(w))
			for field, value := range changes {
				spec[field] = value
			}
			cloudSpec(&m.Spec, spec)
		})
	}
	const notAllowed = "EndpointNotAllowed"
	refused := func(w *world) string { return w.enemy.gate.url + "/identity/v3" }
	withoutOwn := map[string]any{"username": nil, "password": nil}
	fromSystem := map[string]any{"password": map[string]any{"secretKeyRef": map[string]any{"namespace": metav1.NamespaceSystem, "name": keys, "key": "password"}}}
	return []attempt{
		{by: aCloud, to: "have requests sent to an endpoint that nobody has allowed", finding: "F-9", stop: product, shows: notAllowed, try: named(refused, nil)},
		{by: aCloud, to: "have requests sent to a service inside: it is the identityEndpoint", finding: "F-9", stop: product, shows: notAllowed,
			try: named(func(w *world) string { return w.enemy.inside.url + "/v3" }, nil)},
		{by: aCloud, to: "have requests sent to the metadata service of drover's own server", finding: "F-9", stop: product, shows: notAllowed,
			try: named(func(*world) string { return "http://169.254.169.254/latest/v3" }, nil)},
		{by: aCloud, to: "have requests sent to the API server", finding: "F-9", stop: product, shows: notAllowed,
			try: named(func(w *world) string { return w.s.Cluster.Config.Host }, nil)},
		{by: aCloud, to: "pass an endpoint off as allowed: the allowed one is its user name", finding: "F-9", stop: product,
			try: named(func(w *world) string {
				u, err := url.Parse(w.enemy.inside.url)
				w.must(err)
				return w.enemy.at("truth") + "@" + u.Host + "/v3"
			}, nil)},
		{by: aCloud, to: "pass an endpoint off as allowed: its path begins with the letters of the allowed one", finding: "F-9", stop: product, shows: notAllowed,
			try: named(func(w *world) string { return w.enemy.gate.url + "/allowed-too/v3" }, nil)},
		{by: aCloud, to: "pass an endpoint off as allowed: its path leaves the allowed one by ..", finding: "F-9", stop: product, shows: notAllowed,
			try: named(func(w *world) string { return w.enemy.gate.url + "/allowed/%2e%2e/refused/v3" }, nil)},
		{by: aCloud, to: "get the configured cloud's password: a spec names the attacker's endpoint and no credentials", finding: "F-11", stop: product, shows: "CredentialsMissing",
			try: named(func(w *world) string { return w.enemy.keystone("truth") }, withoutOwn)},
		{by: aCloud, to: "get the configured cloud's password: a spec names the attacker's endpoint and the configured user", finding: "F-11", stop: product, shows: "CredentialsMissing",
			try: named(func(w *world) string { return w.enemy.keystone("truth") }, map[string]any{"username": openstack.MetaKubeUser, "password": nil})},
		{by: aCloud, to: "get a Secret of kube-system sent to the attacker's endpoint as a password", finding: "F-11", stop: product, shows: "refers to an object in namespace kube-system",
			try: named(func(w *world) string { return w.enemy.keystone("truth") }, fromSystem)},
		{by: aCloud, to: "get a Secret of kube-system sent to the attacker's endpoint as the name of a network", finding: "F-11", stop: product, shows: "refers to an object in namespace kube-system",
			try: named(func(w *world) string { return w.enemy.keystone("truth") }, map[string]any{"network": fromSystem["password"]})},
	}
}
