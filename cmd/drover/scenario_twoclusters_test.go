//go:build cluster

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

const (
	// machineKeys is the prefix of the keys under which the API server stores objects of drover's kinds in etcd. ownKeys is the prefix
	// for the ConfigMaps in drover's namespace.
	machineKeys = "/registry/cluster.k8s.io/"
	ownKeys     = "/registry/configmaps/drover/"
)

// stored is a key of etcd with its value. In JSON both are base64.
type stored struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// etcd calls etcd's JSON gateway.
func (p *pair) etcd(call string, body, into any) {
	p.Helper()
	raw, err := json.Marshal(body)
	must(p.T, err)
	request, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.kube.EtcdURL()+"/v3/kv/"+call, bytes.NewReader(raw))
	must(p.T, err)
	answer, err := http.DefaultClient.Do(request)
	must(p.T, err)
	defer func() { must(p.T, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		p.Fatalf("etcd answers %s to %s", answer.Status, call)
	}
	must(p.T, json.NewDecoder(answer.Body).Decode(into))
}

// restore stores the objects of another cluster whose keys have one of the prefixes. Like a restored etcd backup it keeps UIDs and
// status.
func (p *pair) restore(from *pair, prefixes ...string) {
	p.Helper()
	for _, prefix := range prefixes {
		var backup struct{ Kvs []stored }
		// The range ends at the first key that does not have the prefix.
		end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
		from.etcd("range", map[string][]byte{"key": []byte(prefix), "range_end": []byte(end)}, &backup)
		for _, each := range backup.Kvs {
			p.etcd("put", each, &struct{}{})
		}
	}
}

// group creates a deployment with the given number of replicas.
func (p *pair) group(replicas int32) {
	p.Helper()
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool"}}
	d.Spec.Replicas, d.Spec.Selector.MatchLabels = &replicas, map[string]string{"pool": "pool"}
	d.Spec.Template.Metadata.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(providerSpec)}
	must(p.T, p.client.Create(p.Context(), d))
}

// living returns the Machines that are not being deleted, by UID.
func (p *pair) living() map[types.UID]v1alpha1.Machine {
	p.Helper()
	var list v1alpha1.MachineList
	must(p.T, p.client.List(p.Context(), &list))
	out := map[types.UID]v1alpha1.Machine{}
	for _, m := range list.Items {
		if m.DeletionTimestamp == nil {
			out[m.UID] = m
		}
	}
	return out
}

// disowned counts the Machines with a condition that reports that their server belongs to another Machine.
func (p *pair) disowned() (n int) {
	for _, m := range p.living() {
		if slices.ContainsFunc(m.Status.Conditions, func(c v1alpha1.MachineCondition) bool {
			return c.Type == v1alpha1.ConditionServerReady && c.Status != corev1.ConditionTrue && c.Reason == "ServerBelongsToAnother"
		}) {
			n++
		}
	}
	return n
}

// remove deletes the Machines and waits until they no longer exist.
func (p *pair) remove(machines map[types.UID]v1alpha1.Machine) {
	p.Helper()
	for _, m := range machines {
		must(p.T, client.IgnoreNotFound(p.client.Delete(p.Context(), &m)))
	}
	p.until("the Machines are gone", func() bool {
		var list v1alpha1.MachineList
		must(p.T, p.client.List(p.Context(), &list))
		return !slices.ContainsFunc(list.Items, func(m v1alpha1.Machine) bool { return machines[m.UID].Name != "" })
	})
}

// serversOf returns the servers whose metadata has the given cluster id, by server ID.
func (p *pair) serversOf(cluster string) map[string]sim.Server {
	out := map[string]sim.Server{}
	for _, s := range p.cloud.Servers() {
		if s.Metadata["drover-cluster-id"] == cluster {
			out[s.ID] = s
		}
	}
	return out
}

// untouched fails the test unless the servers of a cluster, with their ports and metadata, equal the earlier ones in was.
func (p *pair) untouched(cluster string, was map[string]sim.Server) {
	p.Helper()
	if diff := cmp.Diff(was, p.serversOf(cluster)); diff != "" {
		p.Errorf("the servers of cluster %s (-were +are):\n%s", cluster, diff)
	}
}

// A cluster that is restored from another cluster's backup has Machines with the same UIDs as the other cluster's Machines, and these
// Machines name the other cluster's servers.
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
	t.Run("a cluster restored from a backup reports that the servers belong to the other cluster, and creates no servers (F-1)", func(t *testing.T) {
		first, second := first.in(t), second.in(t)
		second.until("all say so", func() bool { return second.disowned() == 3 })
		if n := len(first.cloud.Servers()); n != 3 {
			t.Errorf("there are %d servers, want 3", n)
		}
	})
	t.Run("the old cluster's servers stay unchanged when the restored cluster replaces its own Machines (F-1)", func(t *testing.T) {
		first, second := first.in(t), second.in(t)
		second.remove(copies)
		second.until("it has servers of its own", func() bool { return second.recorded() == 3 && len(second.serversOf(restored)) == 3 })
		first.untouched(old, was)
	})
	t.Run("each cluster's search for orphans leaves the other cluster's servers unchanged (MCM-85, CAPI-59)", func(t *testing.T) {
		first, second := first.in(t), second.in(t)
		own := second.serversOf(restored)
		first.passes(4)
		first.untouched(old, was)
		second.untouched(restored, own)
	})
	t.Run("the restored cluster's servers stay unchanged when the old cluster replaces its own Machines (F-1)", func(t *testing.T) {
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

// A cluster is restored beside the old cluster with all of drover's data, including the cluster id. It treats the old cluster's
// servers as its own, and every server that the old cluster creates after the backup as a server without a Machine.
func TestAClusterRestoredBesideTheOldClusterWithTheSameClusterID(t *testing.T) {
	t.Parallel()
	flags := append(eager, "--cluster-id=same")
	first := newPair(t)
	first.replica("first", flags...)
	first.group(3)
	first.until("three servers are there", func() bool { return first.recorded() == 3 })
	second := newPairAt(t, first.cloud)
	second.restore(first, machineKeys, ownKeys)
	first.resize(8)
	first.until("the old cluster has five servers more", func() bool { return first.recorded() == 8 })
	second.replica("second", flags...)
	t.Run("the restored cluster reports the servers that the old cluster created after the backup, and deletes none of them (MCM-82)", func(t *testing.T) {
		second := second.in(t)
		second.until("it reports them", func() bool { return strings.Count(second.shown("report"), "has not seen the end") >= 5 })
		second.passes(4)
		if n := second.accepted("DELETE /servers/{id}") + second.accepted("DELETE /ports/{id}"); n != 0 || second.unknownTo() != 5 {
			t.Errorf("%d deletions; %d servers have no Machine there", n, second.unknownTo())
		}
	})
}

// resize changes the size of the deployment in the cluster.
func (p *pair) resize(replicas int32) {
	p.Helper()
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool"}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	must(p.T, p.client.Patch(p.Context(), d, client.RawPatch(types.MergePatchType, patch)))
}

// eager are flags with which drover deletes an orphan as soon as a round of the collector has found it.
var eager = []string{"--orphan-age=0"}

// shown returns the value of key in the collector's ConfigMap.
func (p *pair) shown(key string) string {
	p.Helper()
	var cm corev1.ConfigMap
	err := p.client.Get(p.Context(), client.ObjectKey{Namespace: "drover", Name: "drover-orphans"}, &cm)
	must(p.T, client.IgnoreNotFound(err))
	return cm.Data[key]
}

// passes waits long enough for n rounds of the collector.
func (p *pair) passes(n int) {
	p.Helper()
	end := time.Now().Add(time.Duration(n+1) * time.Second)
	p.until("some looks were made", func() bool { return time.Now().After(end) })
}

// unknownTo returns how many servers in the cloud belong to no Machine of this cluster.
func (p *pair) unknownTo() (n int) {
	known := p.living()
	for _, s := range p.cloud.Servers() {
		if _, there := known[types.UID(s.Metadata["machine-uid"])]; !there {
			n++
		}
	}
	return n
}
