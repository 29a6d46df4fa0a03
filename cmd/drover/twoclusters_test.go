package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

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
	// machineKeys begin the keys under which the API server stores objects of drover's kinds in etcd, ownKeys those of ConfigMaps in
	// drover's namespace.
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

// restore stores the objects of another cluster whose keys begin with one of these, as a backup of etcd does: with UID and status.
func (p *pair) restore(from *pair, prefixes ...string) {
	p.Helper()
	for _, prefix := range prefixes {
		var backup struct{ Kvs []stored }
		// The first key that does not begin with the prefix ends the range.
		end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
		from.etcd("range", map[string][]byte{"key": []byte(prefix), "range_end": []byte(end)}, &backup)
		for _, each := range backup.Kvs {
			p.etcd("put", each, &struct{}{})
		}
	}
}

// group creates a deployment of so many Machines.
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

// disowned counts the Machines whose condition says that their server belongs to somebody else.
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

// remove deletes Machines and waits until they are gone.
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

// serversOf returns the servers with a cluster's ID, by their IDs.
func (p *pair) serversOf(cluster string) map[string]sim.Server {
	out := map[string]sim.Server{}
	for _, s := range p.cloud.Servers() {
		if s.Metadata["drover-cluster-id"] == cluster {
			out[s.ID] = s
		}
	}
	return out
}

// untouched fails the test unless a cluster's servers are as they were, with their ports and their metadata.
func (p *pair) untouched(cluster string, was map[string]sim.Server) {
	p.Helper()
	if diff := cmp.Diff(was, p.serversOf(cluster)); diff != "" {
		p.Errorf("the servers of cluster %s (-were +are):\n%s", cluster, diff)
	}
}

// resize changes the size of the deployment that group made.
func (p *pair) resize(replicas int32) {
	p.Helper()
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool"}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	must(p.T, p.client.Patch(p.Context(), d, client.RawPatch(types.MergePatchType, patch)))
}
