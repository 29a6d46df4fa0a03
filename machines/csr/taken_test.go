package csr

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
