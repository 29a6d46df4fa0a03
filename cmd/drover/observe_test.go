package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
	sim "github.com/drover-project/drover/test/openstack"
)

const providerSpec = `{"cloudProvider":"openstack","operatingSystem":"ubuntu","cloudProviderSpec":{"flavor":"` + sim.MetaKubeFlavor +
	`","image":"` + sim.MetaKubeImage + `","network":"` + sim.MetaKubeNetwork + `","subnet":"` + sim.MetaKubeSubnet +
	`","availabilityZone":"` + sim.MetaKubeZone + `","securityGroups":["` + sim.MetaKubeSecurityGroup + `"]}}`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watched returns a cluster with work for every controller: a deployment without a set, a Machine without a server, and a
// Machine that is being deleted.
func watched(t *testing.T) (*kube.Cluster, client.Client) {
	t.Helper()
	cluster := kube.ForTest(t, kube.Options{})
	kinds := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)))
	c, err := client.New(cluster.Config, client.Options{Scheme: kinds})
	must(t, err)
	must(t, deploy.Apply(t.Context(), c, "crds"))
	spec := v1alpha1.MachineSpec{
		Versions:     v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"},
		ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(providerSpec)}},
	}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool"}}
	d.Spec.Replicas, d.Spec.Selector.MatchLabels = ptr.To[int32](2), map[string]string{"pool": "pool"}
	d.Spec.Template = v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: d.Spec.Selector.MatchLabels}, Spec: spec}
	going := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "going"}, Spec: spec}
	going.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover"}}, d, going,
		&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coming"}, Spec: spec},
	} {
		must(t, c.Create(t.Context(), o))
	}
	must(t, c.Delete(t.Context(), going))
	return cluster, c
}

// observe runs drover with --observe until it has made the awaited decisions, and returns all decisions.
func observe(t *testing.T, cluster *kube.Cluster, cloud *sim.Cloud, awaited []decision) []decision {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	o := defaults()
	o.observe, o.kubeconfig, o.healthAddress = true, cluster.Kubeconfig, "0"
	o.metricsAddress = listener.Addr().String()
	o.grpcAddress = "unix://" + filepath.Join(t.TempDir(), "grpc")
	must(t, listener.Close())
	must(t, o.validate())
	credentials, err := credentialsFrom(o, cloud.Environment())
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, o, credentials) }()
	var page struct{ Decisions []decision }
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 40*time.Second, true, func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.metricsAddress+"/observe", http.NoBody)
		if err != nil {
			return false, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil
		}
		defer func() { _ = resp.Body.Close() }()
		if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
			return false, err
		}
		for _, a := range awaited {
			if !slices.ContainsFunc(page.Decisions, func(d decision) bool {
				return d.Verb == a.Verb && strings.HasPrefix(d.Object, a.Object) && strings.HasPrefix(d.Detail, a.Detail)
			}) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Errorf("waiting for the decisions: %v; there are %+v", err, page.Decisions)
	}
	stop()
	must(t, <-ended)
	return page.Decisions
}

func TestDroverInObserveModeWritesNothing(t *testing.T) {
	cluster, c := watched(t)
	cloud := sim.New(sim.Config{Seed: sim.SeedMetaKube})
	must(t, cloud.Start(t.Context()))
	defer cloud.Close()
	decisions := observe(t, cluster, cloud, []decision{
		{Verb: "create", Object: "MachineSet kube-system/pool"},
		{Verb: "create", Object: "Secret kube-system/bootstrap-token-"},
		{Verb: "patch", Object: "Machine kube-system/coming"},
		{Verb: "patch", Object: "Machine kube-system/going"},
		{Verb: "POST", Object: "/network/v2.0/ports", Detail: "port coming"},
		{Verb: "apply status", Object: "MachineDeployment kube-system/pool"},
	})

	t.Run("drover sends no write request to the API server", func(t *testing.T) {
		requests, err := cluster.Requests()
		must(t, err)
		read := 0
		for _, r := range requests {
			switch {
			case !strings.HasPrefix(r.UserAgent, "drover/"), r.Resource == "subjectaccessreviews":
			case slices.Contains([]string{"get", "list", "watch"}, r.Verb):
				read++
			default:
				t.Errorf("%s %s", r.Verb, r.URI)
			}
		}
		if read == 0 {
			t.Error("it has read nothing: is this drover's name?")
		}
	})
	t.Run("drover sends no write call to the cloud", func(t *testing.T) {
		asked := 0
		for _, call := range cloud.Calls() {
			asked++
			if call.Method != http.MethodGet && !strings.HasSuffix(call.Path, "/auth/tokens") {
				t.Errorf("%s %s", call.Method, call.Path)
			}
		}
		if asked == 0 || !cloud.Leftovers().Empty() {
			t.Errorf("%d calls, %+v", asked, cloud.Leftovers())
		}
	})
	t.Run("drover creates no lease", func(t *testing.T) {
		var leases coordinationv1.LeaseList
		must(t, c.List(t.Context(), &leases, client.InNamespace("drover")))
		if len(leases.Items) != 0 {
			t.Errorf("%+v", leases.Items)
		}
	})
	t.Run("drover shows its decisions on the page /observe, without the values of Secrets", func(t *testing.T) {
		secrets := 0
		for _, d := range decisions {
			if !strings.HasPrefix(d.Object, "Secret ") {
				continue
			}
			secrets++
			if d.Detail != "" {
				t.Errorf("%+v", d)
			}
		}
		if secrets == 0 {
			t.Error("no decision is about a Secret, although the Machine needs a bootstrap token")
		}
	})
}

// unsent is a transport that must not be used.
type unsent struct{ t *testing.T }

func (u unsent) RoundTrip(req *http.Request) (*http.Response, error) {
	u.t.Errorf("%s %s was sent", req.Method, req.URL)
	return nil, errors.New("sent")
}

func TestObserveModeRecordsWritesAndSendsNone(t *testing.T) {
	const json, merge, apply = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
	machine := "/k8s/clusters/c-1/apis/cluster.k8s.io/v1alpha1/namespaces/ns/machines/m"
	for name, tt := range map[string]struct {
		method, path, contentType, body string
		want                            decision
		code                            int
	}{
		"a patch":                        {"PATCH", machine, merge, `{"spec":1}`, decision{Verb: "patch", Object: "Machine ns/m", Detail: `{"spec":1}`}, 200},
		"an apply of a status":           {"PATCH", machine + "/status", apply, `{}`, decision{Verb: "apply status", Object: "Machine ns/m", Detail: `{}`}, 200},
		"an update of a status":          {"PUT", machine + "/status", json, `{}`, decision{Verb: "update status", Object: "Machine ns/m"}, 200},
		"a deletion":                     {"DELETE", "/api/v1/nodes/n", json, `{}`, decision{Verb: "delete", Object: "Node n"}, 200},
		"an eviction":                    {"POST", "/api/v1/namespaces/ns/pods/p/eviction", json, `{}`, decision{Verb: "create eviction", Object: "Pod ns/p"}, 200},
		"an object with a made name":     {"POST", "/api/v1/namespaces/ns/configmaps", json, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"c-"}}`, decision{Verb: "create", Object: "ConfigMap ns/c-*"}, 200},
		"a Secret, without its content":  {"PATCH", "/api/v1/namespaces/ns/secrets/s", merge, `{"data":1}`, decision{Verb: "patch", Object: "Secret ns/s"}, 200},
		"an Event, as one of its object": {"POST", "/apis/events.k8s.io/v1/namespaces/ns/events", json, `{"regarding":{"kind":"Node","namespace":"ns","name":"n"},"reason":"Made","note":"text"}`, decision{Verb: "event", Object: "Node ns/n", Detail: "Made: text"}, 200},
		"a resize, which is refused":     {"PATCH", "/apis/cluster.k8s.io/v1alpha1/namespaces/ns/machinedeployments/d?fieldManager=drover-nodegroup", merge, `{}`, decision{Verb: "patch", Object: "MachineDeployment ns/d", Detail: `{}`}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			o := newObserver(&options{clusterOptions: clusterOptions{observe: true}})
			req := httptest.NewRequest(tt.method, "https://cluster"+tt.path, strings.NewReader(tt.body))
			req.Header.Set("Content-Type", tt.contentType)
			resp, err := observed{unsent{t}, o}.RoundTrip(req)
			must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != tt.code || len(o.decisions) != 1 {
				t.Fatalf("answer %d, decisions %+v", resp.StatusCode, o.decisions)
			}
			got := o.decisions[0]
			tt.want.Where, tt.want.Count, tt.want.First, tt.want.Last = "kubernetes", 1, got.First, got.Last
			if got != tt.want {
				t.Errorf("recorded %+v, want %+v", got, tt.want)
			}
		})
	}
}
