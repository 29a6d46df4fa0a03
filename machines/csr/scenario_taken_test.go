package csr

import (
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The attacker has a Machine with a Node, and runs a cloud that lists any address for its server.
func TestAMachineInAnAttackersCloud(t *testing.T) {
	for _, tt := range []struct {
		name string
		// age is how much older the other Node is than the attacker's Node. reports holds the addresses that the other Node
		// reports. listed holds the addresses that the cloud has for the other Node's server; empty means that the other Node
		// has no Machine.
		age             time.Duration
		reports, listed string
		want            string
	}{
		{"gets no certificate for the address of another Machine's Node that registered earlier (F-2)", time.Hour, "10.0.0.6", "10.0.0.6", nothing},
		{"gets no certificate for the address of a Node that registered earlier and belongs to no Machine (F-2)", time.Hour, "10.0.0.6", "", nothing},
		{"gets a certificate for an address that is also reported by a Node that registered later (F-2)", -time.Hour, "10.0.0.6", "10.0.0.6", approved},
		{"gets a certificate for an address that an earlier Node reports when that Node's own cloud does not list the address (F-2)", time.Hour, "10.0.0.6", "10.0.0.7", approved},
		{"gets a certificate for an address that no other node has (F-2)", time.Hour, "10.0.0.7", "10.0.0.7", approved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFakeCluster(t)
			now := time.Unix(1700000000, 0)
			c.machine("own", "10.0.0.6", joined)
			own := node("own", "openstack:///"+serverID("own"))
			own.CreationTimestamp = metav1.NewTime(now)
			other := node("other", "openstack:///"+serverID("other"))
			other.CreationTimestamp = metav1.NewTime(now.Add(-tt.age))
			other.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: tt.reports}}
			c.create(own)
			c.create(other)
			if tt.listed != "" {
				c.machine("other", tt.listed, joined)
			}
			if got := c.try(toServe("own", "own", "own", "10.0.0.6")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnAddressThatTheOperatorsCloudListsIsCertified(t *testing.T) {
	t.Run("a Machine in the operator's cloud gets a certificate for an address that an older Node of another cloud has (F-2)", func(t *testing.T) {
		c := newFakeCluster(t)
		now := time.Unix(1700000000, 0)
		own := c.machine("own", "10.0.0.6", joined)
		c.servers.marked[own.UID].Configured = true
		c.machine("other", "10.0.0.6", joined)
		for name, age := range map[string]time.Duration{"own": 0, "other": time.Hour} {
			n := node(name, "openstack:///"+serverID(name))
			n.CreationTimestamp = metav1.NewTime(now.Add(-age))
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.6"}}
			c.create(n)
		}
		if got := c.try(toServe("own", "own", "own", "10.0.0.6")); got != approved {
			t.Errorf("got %q, want %q", got, approved)
		}
	})
}

// The metadata of a server has the key hostname, whose value the cloud-controller-manager shows on the Node. The author of a Machine can set
// it, and so can every user of the project.
func TestAHostNameInTheMetadataOfAServer(t *testing.T) {
	now := time.Unix(1700000000, 0)
	const name = "a.example.com"
	named := func(c *fakeCluster, machine, name string) {
		s := c.servers.marked[types.UID("uid-"+machine)]
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
		s.Configured = true
	}
	other := func(c *fakeCluster, name string, age time.Duration, addresses ...corev1.NodeAddress) {
		n := node(name, "openstack:///"+serverID(name))
		n.CreationTimestamp, n.Status.Addresses = metav1.NewTime(now.Add(-age)), addresses
		c.create(n)
	}
	shown := corev1.NodeAddress{Type: corev1.NodeHostName, Address: name}
	for _, tt := range []struct {
		name   string
		change func(*fakeCluster)
		host   string
		want   string
	}{
		{"is certified (F-113)", func(*fakeCluster) {}, name, approved},
		{"is certified although a newer Node has it too (F-113)", func(c *fakeCluster) { other(c, "newer", -time.Hour, shown) }, name, approved},
		{"is not certified when it is the name of another Node (F-113)", func(c *fakeCluster) { other(c, name, -time.Hour) }, name, nothing},
		{"is not certified when it is the name of another Machine's server, which has not joined yet (F-113)", func(c *fakeCluster) { c.machine(name, "10.0.0.7") }, name, nothing},
		{"is not certified when an older Node without a Machine has it (F-113)", func(c *fakeCluster) { other(c, "older", time.Hour, shown) }, name, nothing},
		{"is not certified when the server of another Machine has it, and the Node is older (F-113)", func(c *fakeCluster) {
			c.machine("older", "10.0.0.7", joined)
			named(c, "older", name)
			other(c, "older", time.Hour, shown)
		}, name, nothing},
		{"is certified although the kubelet of an older Node says that it has it (F-113)", func(c *fakeCluster) {
			c.machine("older", "10.0.0.7", joined)
			other(c, "older", time.Hour, shown)
		}, name, approved},
		{"is certified beside the node's own name, and a short form of it that nobody knows is denied (report 81)", func(*fakeCluster) {}, "a", denied},
		{"is certified, and a name that only the kubelet's domain makes longer is denied (report 81)", func(*fakeCluster) {}, "own.example.com", denied},
		{"is not certified when the cloud shows another one (F-113)", func(*fakeCluster) {}, "b.example.com", denied},
		{"is not certified when it is a name of the API server (F-113)", func(c *fakeCluster) { named(c, "own", "kubernetes.default.svc") }, "kubernetes.default.svc", denied},
		{"is not certified when it stands for many names (F-113)", func(c *fakeCluster) { named(c, "own", "*.example.com") }, "*.example.com", denied},
		{"is neither certified nor denied before the inventory of servers is complete (F-113)", func(c *fakeCluster) { c.servers.unknown["uid-own"] = true }, name, nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFakeCluster(t)
			c.machine("own", "10.0.0.6", joined)
			named(c, "own", name)
			other(c, "own", 0)
			tt.change(c)
			if got := c.try(toServe("own", "own", tt.host, "10.0.0.6")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnEventNamesTheAddressForWhichANodeGetsNoCertificate(t *testing.T) {
	t.Run("is recorded two minutes after the request, and then every ten minutes (F-113)", func(t *testing.T) {
		c := newFakeCluster(t)
		c.join(c.machine("own", "10.0.0.6"))
		for _, tt := range []struct {
			age  time.Duration
			want int
		}{{time.Second, 0}, {shownAge - time.Second, 0}, {shownAge, 1}, {shownAge + warnEvery - time.Second, 1}, {shownAge + warnEvery + 1, 2}} {
			c.clock.SetTime(time.Unix(1700000000, 0).Add(tt.age))
			if got := c.try(toServe("own", "own", "own", "10.0.0.6", "192.0.2.7")); got != nothing {
				t.Fatalf("got %q, want no decision", got)
			}
			if len(c.events.all) != tt.want {
				t.Errorf("%d Events after %v, want %d", len(c.events.all), tt.age, tt.want)
			}
		}
		const note = "certificate request request-3 for kubernetes.io/kubelet-serving waits: the cloud shows no address 192.0.2.7 for server own; drover tries again until 2023-11-14T23:13:20Z"
		if len(c.events.all) == 0 || c.events.all[0] != "ns/own CertificateUndecided" || c.events.notes[0] != note {
			t.Errorf("Events %q %q, want one with the address", c.events.all, c.events.notes)
		}
	})
}

func TestARequestForAServingCertificateThatComesBeforeTheServersAddresses(t *testing.T) {
	t.Run("is looked at again soon, and approved when the cloud shows the addresses (report 80)", func(t *testing.T) {
		c := newFakeCluster(t)
		c.join(c.machine("own", "10.0.0.6"))
		server := c.servers.marked["uid-own"]
		addresses := server.Addresses
		server.Addresses = nil
		if got := c.try(toServe("own", "own", "own", "10.0.0.6")); got != nothing {
			t.Fatalf("got %q, want no decision", got)
		}
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("request-", c.requests)}}
		again, err := c.approver.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(request)})
		if err != nil || again.RequeueAfter <= 0 || again.RequeueAfter > time.Minute {
			t.Errorf("the next look is after %s, %v", again.RequeueAfter, err)
		}
		server.Addresses = addresses
		if got := c.decided(request); got != approved {
			t.Errorf("got %q, want %q", got, approved)
		}
	})
}
