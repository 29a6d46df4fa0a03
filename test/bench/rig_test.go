package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
)

// quiet is the time without a write of drover after which a stage is over. It is longer than the time for which drover
// delays writes that are not urgent.
const quiet = 35 * time.Second

// rig is a plant with a cloud. drover reaches the cloud through a proxy that records its calls, and Nodes join as real
// ones do.
type rig struct {
	*plant
	cloudUnderTest
	// name is the prefix of all names in the cloud. cluster is drover's cluster ID.
	name, cluster string
	// log records the calls of drover and then of the bare client. session is the benchmark's own session, which
	// bypasses the log.
	log     *callLog
	session *session
}

// buildDrover builds the drover program once for all stages, and returns its path.
func buildDrover(b *testing.B) string {
	b.Helper()
	path, err := sandbox.Build(b.Context(), b.TempDir(), b.Output())
	if err != nil {
		b.Fatal(err)
	}
	return path
}

func newRig(b *testing.B, drover string, g cloudUnderTest) *rig {
	b.Helper()
	r := &rig{cloudUnderTest: g, log: newCallLog(b), plant: newPlant(b, drover)}
	r.name = fmt.Sprintf("scale-%04x", time.Now().UnixNano()/1e6&0xffff)
	r.environment = g.variables(r.log.through(g.credentials.IdentityEndpoint))
	var err error
	r.session, err = signIn(b.Context(), g.credentials, g.credentials.IdentityEndpoint)
	r.must(err)
	var system corev1.Namespace
	r.must(r.client.Get(b.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &system))
	r.cluster = string(system.UID)
	b.Cleanup(r.sweep)
	return r
}

// deployment returns a MachineDeployment of n Machines. surge is how many Machines a rollout replaces at the same time, at
// most.
func (r *rig) deployment(n, surge int, floating bool) *v1alpha1.MachineDeployment {
	spec := object{
		"flavor": r.flavor, "image": r.image, "network": r.network, "securityGroups": []string{r.group},
	}
	if floating {
		spec["floatingIpPool"] = r.pool
	}
	raw, err := json.Marshal(object{"cloudProvider": "openstack", "operatingSystem": "ubuntu", "operatingSystemSpec": object{}, "cloudProviderSpec": spec})
	r.must(err)
	labels := map[string]string{"pool": r.name}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: r.name}}
	d.Spec.Replicas = ptr.To(int32(n))
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.MachineRollingUpdate{
		MaxSurge: ptr.To(intstr.FromInt(surge)), MaxUnavailable: ptr.To(intstr.FromInt(0)),
	}}
	return d
}

// change calls the function how, which changes the benchmark's MachineDeployment, and writes the change with one patch.
func (r *rig) change(how func(*v1alpha1.MachineDeployment)) {
	r.Helper()
	var d v1alpha1.MachineDeployment
	r.must(r.client.Get(r.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: r.name}, &d))
	base := d.DeepCopy()
	how(&d)
	r.must(r.client.Patch(r.Context(), &d, client.MergeFrom(base)))
}

func (r *rig) resize(n int) {
	r.Helper()
	r.change(func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = ptr.To(int32(n)) })
}

// span holds the effect of one change: drover's calls to the cloud until the change is complete, and its requests to
// Kubernetes until drover is quiet.
type span struct {
	began, done time.Time
	calls       cloudCalls
	requests    requests
}

// during calls change, and waits until done returns true and drover is quiet.
func (r *rig) during(what string, change func(), done func() bool) span {
	r.Helper()
	s := span{began: time.Now()}
	change()
	r.await(what, done)
	s.done = time.Now()
	r.await("drover is quiet after: "+what, func() bool { return time.Since(r.lastWrite(s.done)) > quiet })
	s.calls = r.log.between(s.began, s.done)
	s.requests = r.since(s.began)
	return s
}

// servers holds the numbers of this run's servers: of those that exist, and of those that are ACTIVE.
type servers struct{ present, active int }

func (r *rig) serversOf(infix string) (n servers) {
	rows, err := r.session.list(r.Context(), "compute", "/servers/detail?limit=1000", "servers")
	r.must(err)
	for _, s := range rows {
		if !strings.HasPrefix(s.Name, r.name) || !strings.Contains(s.Name, infix) {
			continue
		}
		n.present++
		if s.Status == "ACTIVE" {
			n.active++
		}
	}
	return n
}

// left returns what this run still has in the cloud: IDs by kind.
func (r *rig) left(ctx context.Context) (map[string][]string, error) {
	found := map[string][]string{}
	for _, kind := range []struct{ service, path, name string }{
		{"compute", "/servers/detail?limit=1000", "servers"}, {"network", "/floatingips", "floatingips"}, {"network", "/ports", "ports"},
	} {
		rows, err := r.session.list(ctx, kind.service, kind.path, kind.name)
		if err != nil {
			return nil, err
		}
		for _, one := range rows {
			if strings.HasPrefix(one.Name, r.name) || one.Description == r.name || strings.Contains(one.Description, r.cluster) {
				found[kind.name] = append(found[kind.name], one.ID)
			}
		}
	}
	return found, nil
}

// exactly fails the benchmark unless this run has n servers, n ports and, if floating is true, n floating IPs.
func (r *rig) exactly(n int, floating bool) {
	r.Helper()
	found, err := r.left(r.Context())
	r.must(err)
	want := map[string]int{"servers": n, "ports": n, "floatingips": 0}
	if floating {
		want["floatingips"] = n
	}
	for kind, count := range want {
		if len(found[kind]) != count {
			r.Errorf("%d %s, want %d", len(found[kind]), kind, count)
		}
	}
}

// sweep deletes what a failed stage has left in the cloud. drover has ended before.
func (r *rig) sweep() {
	ctx := context.WithoutCancel(r.Context())
	for range 20 {
		found, err := r.left(ctx)
		if err == nil && len(found) == 0 {
			return
		}
		for _, kind := range slices.Backward(slices.Sorted(maps.Keys(found))) {
			service := "network"
			if kind == "servers" {
				service = "compute"
			}
			for _, id := range found[kind] {
				_ = r.session.remove(ctx, service, "/"+kind+"/"+id)
			}
		}
		time.Sleep(2 * look)
	}
	r.Errorf("things of this run, whose names begin with %s or whose description names %s, are left in the cloud", r.name, r.cluster)
}
