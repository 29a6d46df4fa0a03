//go:build cluster

package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// A cluster that is restored from another one's backup has Machines with the UIDs of the other one's Machines, and each names
// the other one's server.
func TestTwoClustersInOneProject(t *testing.T) {
	t.Parallel()
	const old, restored = "old", "restored"
	first := newPair(t)
	first.replica("first", append(eager, "--cluster-id="+old)...)
	first.group(3)
	first.until("three servers are there", func() bool { return first.recorded() == 3 && len(first.serversOf(old)) == 3 })
	second := newPairAt(t, first.cloud)
	second.restore(first, machineKeys)
	was, copies := first.serversOf(old), second.living()
	if !maps.EqualFunc(copies, first.living(), func(a, b v1alpha1.Machine) bool { return a.Name == b.Name && *a.Spec.ProviderID == *b.Spec.ProviderID }) {
		t.Fatalf("the restored Machines are %v", copies)
	}
	second.replica("second", append(eager, "--cluster-id="+restored)...)
	t.Run("the restored cluster says of each Machine that its server is another cluster's, and makes none (F-1)", func(t *testing.T) {
		first, second := first.in(t), second.in(t)
		second.until("all say so", func() bool { return second.disowned() == 3 })
		if n := len(first.cloud.Servers()); n != 3 {
			t.Errorf("there are %d servers, want 3", n)
		}
	})
	t.Run("when it deletes its Machines and makes others the old cluster's servers stay as they are (F-1)", func(t *testing.T) {
		first, second := first.in(t), second.in(t)
		second.remove(copies)
		second.until("it has servers of its own", func() bool { return second.recorded() == 3 && len(second.serversOf(restored)) == 3 })
		first.untouched(old, was)
	})
	t.Run("neither collector touches what the other cluster has made (MCM-85, CAPI-59)", func(t *testing.T) {
		first, second := first.in(t), second.in(t)
		own := second.serversOf(restored)
		first.passes(4)
		first.untouched(old, was)
		second.untouched(restored, own)
	})
	t.Run("when the old cluster deletes its Machines and makes others the restored one's servers stay as they are (F-1)", func(t *testing.T) {
		first, second := first.in(t), second.in(t)
		own := second.serversOf(restored)
		first.remove(first.living())
		first.until("it has other servers", func() bool { return first.recorded() == 3 && len(first.serversOf(old)) == 3 })
		second.untouched(restored, own)
		for id := range was {
			if _, there := first.cloud.Server(id); there {
				t.Errorf("server %s of a deleted Machine is still there", id)
			}
		}
		if left := first.cloud.Leftovers(); len(left.Servers) != 6 || len(left.Ports) != 6 {
			t.Errorf("six servers with a port each: there are %+v", left)
		}
	})
}

// A cluster that is restored beside the old one with everything that drover knows, its cluster ID too, takes the old one's servers for
// its own, and all that the old one makes from then on for things without a Machine.
func TestAClusterRestoredBesideTheOldOneWithItsID(t *testing.T) {
	t.Parallel()
	flags := append(eager, "--cluster-id=same")
	first := newPair(t)
	first.replica("first", flags...)
	first.group(3)
	first.until("three servers are there", func() bool { return first.recorded() == 3 })
	first.until("orphans are collected", func() bool { return strings.Contains(first.shown("memory"), `"clusterID":"same"`) })
	second := newPairAt(t, first.cloud)
	second.restore(first, machineKeys, ownKeys)
	first.resize(8)
	first.until("the old cluster has five servers more", func() bool { return first.recorded() == 8 })
	second.replica("second", flags...)
	t.Run("the restored cluster sees them and only reports them (MCM-82)", func(t *testing.T) {
		second := second.in(t)
		second.until("it says why", func() bool { return strings.Contains(second.shown("report"), "5 of 8 servers") })
		second.passes(4)
		if n := second.accepted("DELETE /servers/{id}") + second.accepted("DELETE /ports/{id}"); n != 0 || second.unknownTo() != 5 {
			t.Errorf("%d deletions; %d servers have no Machine there", n, second.unknownTo())
		}
	})
}
