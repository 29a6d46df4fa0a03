package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
)

// freePort returns an address on loopback on which no process listens.
func freePort(t *testing.T) string {
	t.Helper()
	address, err := kube.FreeAddress()
	must(t, err)
	return address
}

// status returns the HTTP status of one of drover's pages; 0 when there is no answer.
func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	must(t, resp.Body.Close())
	return resp.StatusCode
}

// seed returns the MachineDeployment of MetaKube's documentation, unchanged.
func (p *pair) seed() *v1alpha1.MachineDeployment {
	p.Helper()
	text, err := os.ReadFile("../../deploy/testdata/nodes.yaml")
	must(p.T, err)
	d := &v1alpha1.MachineDeployment{}
	must(p.T, yaml.UnmarshalStrict(text, d))
	if d.Spec.Template.Spec.Versions.Kubelet != "1.30.3" {
		p.Fatalf("it is not as it was: %s", text)
	}
	return d
}

func TestDroverWorksAndAnswersProbesWithoutLeaderElection(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	health := freePort(t)
	p.replica("alone", "--features=no-leader-election", "--health-address="+health)
	t.Run("drover reconciles Machines: one whose kubelet is too old gets no server, and its condition lists the allowed versions", func(t *testing.T) { p.skewed(t) })
	t.Run("drover answers /readyz without reading Nodes, and /healthz even without the API server and the cloud (MC-77)", func(t *testing.T) {
		p.until("it is ready", func() bool { return status(t, "http://"+health+"/readyz") == http.StatusOK })
		before := p.nodeLists()
		for range 10 {
			if code := status(t, "http://"+health+"/readyz"); code != http.StatusOK {
				t.Errorf("ready: %d", code)
			}
		}
		if n := p.nodeLists() - before; n != 0 {
			t.Errorf("%d lists of nodes", n)
		}
		p.cloud.Close()
		p.kube.Stop()
		for range 10 {
			if code := status(t, "http://"+health+"/healthz"); code != http.StatusOK {
				t.Errorf("alive: %d", code)
			}
		}
	})
}

// nodeLists returns how many list and get calls for Nodes drover has made.
func (p *pair) nodeLists() (n int) {
	requests, err := p.kube.Requests()
	must(p.T, err)
	for _, r := range requests {
		if r.User == "alone" && r.Resource == "nodes" && (r.Verb == "list" || r.Verb == "get") {
			n++
		}
	}
	return n
}

func (p *pair) skewed(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
	node.Status.NodeInfo.KubeletVersion = "v1.30.3"
	must(t, p.client.Create(t.Context(), node))
	must(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	d := p.seed()
	must(t, p.client.Create(t.Context(), d))
	said := func(what string) func() bool {
		return func() bool {
			var list v1alpha1.MachineList
			must(t, p.client.List(t.Context(), &list))
			n := 0
			for i := range list.Items {
				for _, c := range list.Items[i].Status.Conditions {
					if c.Type == v1alpha1.ConditionSpecValid && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, what) {
						n++
					}
				}
			}
			return n == 2
		}
	}
	p.until("both Machines say which versions are allowed", said(": allowed are 1.34 to 1.37"))
	if n := p.accepted("POST /servers") + p.accepted("POST /ports"); n != 0 {
		t.Errorf("%d servers and ports were made", n)
	}
	now := &corev1.Node{}
	must(t, p.client.Get(t.Context(), client.ObjectKeyFromObject(node), now))
	if now.ResourceVersion != node.ResourceVersion {
		t.Errorf("the existing node was changed: %+v", now)
	}
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:"true"}}}}}`, v1alpha1.AnnotationAllowSkew)
	must(t, p.client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, patch)))
	p.until("the annotation in the template overrides it", func() bool { return p.accepted("POST /servers") >= 1 })
}
