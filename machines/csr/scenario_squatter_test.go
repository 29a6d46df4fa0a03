package csr

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// The attacker writes Machines in another namespace. The servers of these Machines have the name of the victim's server.
func TestAMachineWithTheNodeNameOfAnotherMachine(t *testing.T) {
	squatter := func(c *fakeCluster, changes ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
		m := machineNamed("elsewhere", "squatter", append([]func(*v1alpha1.Machine){serverNamed("victim"), func(m *v1alpha1.Machine) { m.Spec.ProviderID = nil }}, changes...)...)
		c.create(m)
		return m
	}
	paused := func(c *fakeCluster) { squatter(c, annotated(v1alpha1.AnnotationPaused)) }
	forged := func(c *fakeCluster) {
		m := squatter(c, annotated(v1alpha1.AnnotationPaused), joined, func(m *v1alpha1.Machine) { m.Spec.ProviderID = ptr.To("openstack:///" + serverID("victim")) })
		c.servers.unknown[m.UID] = true
	}
	withServer := func(c *fakeCluster) { c.servers.add(squatter(c), serverID("squatter"), "10.0.0.9") }
	const taken, ambiguous = "elsewhere/squatter NodeNameTaken", "elsewhere/squatter NodeNameAmbiguous"
	for _, tt := range []struct {
		name     string
		joined   bool
		squatter func(*fakeCluster)
		what     attempt
		want     string
		events   []string
	}{
		{"has no server, and the other Machine with a server can still join (F-7)", false, paused, withToken("aaaaaa", "victim"), approved, []string{taken}},
		{"has no server, and the other Machine with a server still renews its certificate (F-7)", true, paused, asNode("victim", "victim"), approved, []string{taken}},
		{"has no server, and the other Machine with a server still gets its serving certificate (F-7)", true, paused, toServe("victim", "victim", "victim", "10.0.0.5"), approved, []string{taken}},
		{"copies the other Machine's provider ID, and the other Machine can still join (F-7)", false, forged, withToken("aaaaaa", "victim"), approved, []string{taken}},
		{"the other Machine still gets its serving certificate when this Machine has copied its provider ID (F-7)", true, forged, toServe("victim", "victim", "10.0.0.5"), approved, []string{taken}},
		{"has a server too, and the other Machine, which has joined, still renews its certificate (F-7)", true, withServer, asNode("victim", "victim"), approved, []string{taken}},
		{"has a server too, and the other Machine, which has joined, still gets its serving certificate (F-7)", true, withServer, toServe("victim", "victim", "10.0.0.5"), approved, []string{taken}},
		{"gets no certificate for the node name when only the other Machine has a server (F-7)", false, paused, withToken("ssssss", "victim"), nothing, []string{taken}},
		{"gets no certificate for the node name after the other Machine has joined, although both Machines have servers (F-7)", true, withServer, withToken("ssssss", "victim"), nothing, []string{taken}},
		{"gets no serving certificate that combines the node name with the address of its own server (F-7)", true, withServer, toServe("victim", "victim", "10.0.0.9"), nothing, []string{taken}},
		{"gets no certificate while both Machines have servers and neither Machine has a Node (F-7)", false, withServer, withToken("ssssss", "victim"), nothing, []string{ambiguous, "ns/victim NodeNameAmbiguous"}},
		{"delays the other Machine's certificate while both Machines have servers and neither Machine has a Node (F-7)", false, withServer, withToken("aaaaaa", "victim"), nothing, []string{ambiguous, "ns/victim NodeNameAmbiguous"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stolen := token("ssssss", "squatter", "uid-squatter")
			stolen.Annotations[v1alpha1.AnnotationNodeMachine] = "elsewhere/squatter"
			c := newFakeCluster(t, token("aaaaaa", "victim", "uid-victim"), stolen)
			tt.squatter(c)
			if victim := c.machine("victim", "10.0.0.5"); tt.joined {
				c.join(victim)
			}
			if got := c.try(tt.what); got != tt.want {
				t.Errorf("try() = %q, want %q", got, tt.want)
			}
			if slices.Sort(c.events.all); !slices.Equal(c.events.all, tt.events) {
				t.Errorf("Events %q, want %q", c.events.all, tt.events)
			}
		})
	}
	t.Run("gets a warning Event at most every 10 minutes (F-7)", func(t *testing.T) {
		c := newFakeCluster(t)
		paused(c)
		c.join(c.machine("victim", "10.0.0.5"))
		for _, want := range []int{1, 1, 2} {
			c.try(asNode("victim", "victim"))
			if len(c.events.all) != want {
				t.Errorf("%d Events at %v, want %d", len(c.events.all), c.clock.Now(), want)
			}
			c.clock.SetTime(c.clock.Now().Add(warnEvery - time.Minute))
		}
	})
}

func TestTheSecondOfTwoServersWithOneName(t *testing.T) {
	t.Run("joins when the first one is gone, and not before, and an Event names the first Machine (report 51)", func(t *testing.T) {
		c := newFakeCluster(t, token("aaaaaa", "first", "uid-first"), token("ssssss", "second", "uid-second"))
		first := c.machine("first", "10.0.0.5")
		c.join(first)
		second := c.machine("second", "10.0.0.9", serverNamed("first"))
		for range 5 {
			if got := c.try(withToken("ssssss", "first")); got != nothing {
				t.Fatalf("while the first one exists: %q", got)
			}
			if got := c.try(asNode("first", "first")); got != approved {
				t.Fatalf("the first one does not renew its certificate: %q", got)
			}
		}
		if !slices.Contains(c.events.all, second.Namespace+"/"+second.Name+" NodeNameTaken") {
			t.Errorf("Events %q", c.events.all)
		}
		if err := errors.Join(c.client.Delete(t.Context(), first), c.client.Delete(t.Context(), node("first", ""))); err != nil {
			t.Fatal(err)
		}
		delete(c.servers.marked, first.UID)
		if got := c.try(withToken("ssssss", "first")); got != approved {
			t.Errorf("when the first one is gone: %q", got)
		}
	})
}
