//go:build cluster

package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/test/doccommands"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

// watchFor is how long the tests watch nodes that must stay. A longer watch: go test -tags cluster ./test/e2e -run Uninstall -watch=5m
var watchFor = flag.Duration("watch", 5*time.Second, "how long nodes that must stay are watched after drover or its CRDs are removed")

const manifests = "../../deploy"

// herd is a sandbox with one node group, on which a test works with kubectl.
type herd struct {
	*testing.T
	s     *sandbox.Sandbox
	group string
	// shell runs the commands that are in the documentation.
	shell *doccommands.Shell
}

// newHerd starts a sandbox and a group of two usable nodes. Each function in changes alters the options of the sandbox.
func newHerd(t *testing.T, changes ...func(*sandbox.Options)) herd {
	t.Helper()
	h := newEmptyHerd(t, changes...)
	h.begin()
	return h
}

// newEmptyHerd starts a sandbox without a group.
func newEmptyHerd(t *testing.T, changes ...func(*sandbox.Options)) herd {
	t.Helper()
	options := sandbox.Options{Drover: drover, NoAutoscaler: true, BootTime: time.Second}
	for _, change := range changes {
		change(&options)
	}
	s := sandbox.ForTest(t, options)
	return herd{t, s, "kept", doccommands.NewShell(t, s.Cluster.Kubeconfig)}
}

// begin creates a group of two usable nodes.
func (h herd) begin() {
	h.Helper()
	d, err := scenario.NewDemo(h.s)
	if err != nil {
		h.Fatal(err)
	}
	apply(h.T, h.s, h.group, badGroup{name: h.group, replicas: "2"}.manifest(h.T, d))
	h.usable(2)
}

// in returns the herd (the sandbox with its group) for use inside a subtest.
func (h herd) in(t *testing.T) herd { return herd{t, h.s, h.group, h.shell} }

func (h herd) kubectl(args ...string) string {
	h.Helper()
	out, err := h.s.Cluster.Kubectl(h.Context(), args...)
	if err != nil {
		h.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// install applies both kustomizations, with the field manager of the sandbox.
func (h herd) install() {
	h.Helper()
	for _, dir := range []string{manifests + "/crds", manifests} {
		h.kubectl("apply", "--server-side", "--field-manager="+deploy.FieldManager, "-k", dir)
	}
}

func (h herd) machines(ctx context.Context) (map[types.UID]v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	if err := h.s.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	out := map[types.UID]v1alpha1.Machine{}
	for _, m := range list.Items {
		out[m.UID] = m
	}
	return out, nil
}

// usable waits until the number of Machines with usable nodes equals want.
func (h herd) usable(want int) {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		all, err := h.machines(ctx)
		if err != nil {
			return "", err
		}
		usable := 0
		for _, m := range all {
			var n corev1.Node
			err := h.s.Client.Get(ctx, client.ObjectKey{Name: m.ServerName()}, &n)
			if client.IgnoreNotFound(err) != nil {
				return "", err
			}
			if err == nil && m.Status.NodeRef != nil && sandbox.UsableNode(&n) {
				usable++
			}
		}
		if usable != want {
			return fmt.Sprintf("%d usable nodes: %d of %d Machines have one", want, usable, len(all)), nil
		}
		return "", nil
	})
}

// kept records what must stay the same: Machines with their finalizers, the UIDs of Nodes, and the number of deletions in the cloud.
type kept struct {
	machines map[types.UID]v1alpha1.Machine
	nodes    map[string]types.UID
	deletes  int
}

func (h herd) look() kept {
	h.Helper()
	all, err := h.machines(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	k := kept{machines: all, nodes: map[string]types.UID{}, deletes: h.deletes()}
	for _, m := range all {
		var n corev1.Node
		if err := h.s.Client.Get(h.Context(), client.ObjectKey{Name: m.ServerName()}, &n); err != nil {
			h.Fatal(err)
		}
		k.nodes[n.Name] = n.UID
	}
	return k
}

// deletes returns the number of deletions that were requested from the cloud.
func (h herd) deletes() int {
	n := 0
	for name, count := range h.s.Cloud.CallsByName() {
		if strings.HasPrefix(name, http.MethodDelete) {
			n += count
		}
	}
	return n
}

// stays checks for the time watchFor that no recorded Machine, Node or server is drained or deleted.
func (h herd) stays(was kept) {
	h.Helper()
	end := time.Now().Add(*watchFor)
	for time.Now().Before(end) {
		if wrong := h.differs(was); wrong != "" {
			h.Fatal(wrong)
		}
		time.Sleep(pollEvery)
	}
}

// differs returns which recorded Machine, Node or server was drained or deleted, or an empty text. If no Machines were
// recorded, it ignores an error of their list, because their CRD may be gone.
func (h herd) differs(was kept) string {
	all, err := h.machines(h.Context())
	if err != nil && len(was.machines) > 0 {
		return err.Error()
	}
	if n := h.deletes(); n != was.deletes {
		return fmt.Sprintf("the cloud was asked for %d deletions", n-was.deletes)
	}
	for uid, before := range was.machines {
		m, ok := all[uid]
		if !ok || !slices.Equal(m.Finalizers, before.Finalizers) {
			return fmt.Sprintf("Machine %s has lost its finalizers, or is gone", before.Name)
		}
		if m.Spec.ProviderID == nil || !slices.ContainsFunc(h.s.Cloud.Servers(), func(s openstack.Server) bool { return "openstack:///"+s.ID == *m.Spec.ProviderID }) {
			return fmt.Sprintf("the server of Machine %s is gone", m.Name)
		}
	}
	for name, uid := range was.nodes {
		var n corev1.Node
		if err := h.s.Client.Get(h.Context(), client.ObjectKey{Name: name}, &n); err != nil {
			return err.Error()
		}
		if n.UID != uid || n.Spec.Unschedulable || !sandbox.UsableNode(&n) || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDeleting }) {
			return fmt.Sprintf("node %s is not as it was: %+v", name, n.Spec)
		}
	}
	return ""
}

// unguarded deletes the admission policy that guards drover's CRDs, and waits until the API server no longer applies it.
func (h herd) unguarded() {
	h.Helper()
	h.kubectl("delete", "validatingadmissionpolicybinding/drover-crds", "validatingadmissionpolicy/drover-crds")
	eventually(h.T, func(ctx context.Context) (string, error) {
		if _, err := h.s.Cluster.Kubectl(ctx, "delete", "crd", "machines.cluster.k8s.io", "--dry-run=server"); err != nil {
			return "the guard to be gone: " + err.Error(), nil
		}
		return "", nil
	})
}

// held waits until each recorded Machine is being deleted, and its condition says that drover withholds the deletion and
// how to continue.
func (h herd) held(was kept) {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		all, err := h.machines(ctx)
		if err != nil {
			return "", err
		}
		for uid, before := range was.machines {
			m := all[uid]
			at := slices.IndexFunc(m.Status.Conditions, func(c v1alpha1.MachineCondition) bool { return c.Type == v1alpha1.ConditionDeleting })
			if m.DeletionTimestamp == nil || at < 0 {
				return fmt.Sprintf("Machine %s to be deleted, and to say so", before.Name), nil
			}
			c := m.Status.Conditions[at]
			if c.Reason != lifecycle.ReasonKindBeingDeleted || !strings.Contains(c.Message, v1alpha1.AnnotationAllowDeletion+"=true") {
				return fmt.Sprintf("Machine %s to say that its deletion is withheld: %s: %s", m.Name, c.Reason, c.Message), nil
			}
		}
		return "", nil
	})
}

// gone waits until no server and none of the nodes is left.
func (h herd) gone(nodes map[string]types.UID) {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		if n := len(h.s.Cloud.Servers()); n > 0 {
			return fmt.Sprintf("no server: there are %d", n), nil
		}
		for name := range nodes {
			if err := h.s.Client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}); !apierrors.IsNotFound(err) {
				return "node " + name + " to be gone", client.IgnoreNotFound(err)
			}
		}
		return "", nil
	})
}

// metric returns the value of one of drover's metrics. The name includes the labels, if there are any. The value is
// empty when drover has no metric of that name.
func (h herd) metric(ctx context.Context, name string) (string, error) {
	text, err := h.metrics(ctx, 0)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// metrics returns all metrics of the nth drover.
func (h herd) metrics(ctx context.Context, n int) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.s.DroverMetrics(n)+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// restarts starts drover again after it was killed or stopped, and waits until the new process leads.
func (h herd) restarts() {
	h.Helper()
	if err := h.s.ReviveDrover(h.Context(), 0); err != nil {
		h.Fatal(err)
	}
	eventually(h.T, func(ctx context.Context) (string, error) {
		leads, err := h.metric(ctx, `leader_election_master_status{name="drover"}`)
		if leads != "1" {
			return "drover to lead: " + leads, err
		}
		return "", nil
	})
}

// marked waits until every server has the owner tag of an existing Machine.
func (h herd) marked() {
	h.Helper()
	eventually(h.T, func(ctx context.Context) (string, error) {
		all, err := h.machines(ctx)
		if err != nil {
			return "", err
		}
		for _, server := range h.s.Cloud.Servers() {
			if _, ok := all[types.UID(server.Metadata["machine-uid"])]; !ok {
				return "server " + server.Name + " to have the mark of its new Machine", nil
			}
		}
		return "", nil
	})
}

// set returns the name of the only MachineSet.
func (h herd) set() string {
	h.Helper()
	var sets v1alpha1.MachineSetList
	if err := h.s.Client.List(h.Context(), &sets); err != nil || len(sets.Items) != 1 {
		h.Fatalf("%d sets (%v), want one", len(sets.Items), err)
	}
	return sets.Items[0].Name
}

func TestUninstalling(t *testing.T) {
	t.Parallel()
	h := newHerd(t)
	h.install()
	t.Run("no node is removed when drover is uninstalled with kubectl delete -k deploy (F-42)", func(t *testing.T) {
		h := h.in(t)
		was := h.look()
		h.shell.Run(t, "docs/operations.md#uninstall")
		h.stays(was)
	})
	t.Run("after an uninstallation, a new installation of drover replaces no Machine and scales again (F-42)", func(t *testing.T) {
		h := h.in(t)
		was, made := h.look(), h.s.Cloud.CallCount("POST /servers")
		h.s.StopDrover(0)
		h.install()
		h.restarts()
		h.kubectl("-n", "kube-system", "scale", "machinedeployment", h.group, "--replicas=3")
		h.usable(3)
		if wrong := h.differs(was); wrong != "" {
			t.Error(wrong)
		}
		if n := h.s.Cloud.CallCount("POST /servers") - made; n != 1 {
			t.Errorf("%d servers were made for one more Machine", n)
		}
	})
	t.Run("deleting the CRD of Machines deletes no server, even when the guard policy of the CRDs is missing (F-42)", func(t *testing.T) {
		h := h.in(t)
		was := h.look()
		h.unguarded()
		h.kubectl("delete", "crd", "machines.cluster.k8s.io", "--wait=false")
		h.held(was)
		h.s.KillDrover(0)
		h.restarts()
		h.stays(was)
		if got, err := h.metric(t.Context(), "drover_deletions_withheld"); got != "1" {
			t.Errorf("the metric is %q (%v)", got, err)
		}
		if events := h.kubectl("get", "events", "-A", "--field-selector=reason="+lifecycle.ReasonKindBeingDeleted); !strings.Contains(events, slices.Collect(maps.Keys(was.nodes))[0]) {
			t.Errorf("there is no Event about a Machine:\n%s", events)
		}
		if log, err := os.ReadFile(h.s.LogFile("drover")); err != nil || !strings.Contains(string(log), "Deletion withheld") {
			t.Errorf("the log does not say so (%v)", err)
		}
	})
	t.Run("Machines, Nodes and servers are deleted once an annotation on the terminating CRD of Machines allows it (F-42)", func(t *testing.T) {
		h := h.in(t)
		was := h.look()
		h.shell.Run(t, "docs/operations.md#allow-deletion")
		h.gone(was.nodes)
		h.kubectl("wait", "--for=delete", "crd/machines.cluster.k8s.io", "--timeout=90s")
		if left := h.s.Cloud.Leftovers(); !left.Empty() {
			t.Errorf("something is left in the cloud: %+v", left)
		}
	})
}

// TestAfterTheDeletionOfTheCRDOfMachineSets deletes the CRD of MachineSets, and with it the sets. A set waits for
// its Machines, which the garbage collector deletes. A user who then removes the set's finalizer completes the deletion
// of the CRD and can create the CRD again, but the Machines are still being deleted.
func TestAfterTheDeletionOfTheCRDOfMachineSets(t *testing.T) {
	t.Parallel()
	h := newHerd(t)
	h.kubectl("-n", "kube-system", "annotate", "machinedeployment", h.group, v1alpha1.AnnotationPaused+"=")
	was := h.look()
	t.Run("the servers stay when the garbage collector deletes their Machines (F-42)", func(t *testing.T) {
		h := h.in(t)
		h.unguarded()
		h.kubectl("delete", "crd", "machinesets.cluster.k8s.io", "--wait=false")
		h.held(was)
		h.stays(was)
	})
	t.Run("the servers stay when the CRD of MachineSets has been created again and drover restarts (F-42)", func(t *testing.T) {
		h := h.in(t)
		h.kubectl("-n", "kube-system", "patch", "machinesets.cluster.k8s.io", h.set(), "--type=merge", "--patch", `{"metadata":{"finalizers":null}}`)
		h.kubectl("wait", "--for=delete", "crd/machinesets.cluster.k8s.io", "--timeout=90s")
		h.install()
		h.s.StopDrover(0)
		h.restarts()
		h.stays(was)
		h.held(was)
	})
	t.Run("the nodes and servers stay when an operator removes the finalizers of their Machines (F-42)", func(t *testing.T) {
		h := h.in(t)
		h.s.StopDrover(0)
		for _, m := range was.machines {
			h.kubectl("-n", m.Namespace, "patch", "machines.cluster.k8s.io", m.Name, "--type=merge", "--patch", `{"metadata":{"finalizers":null}}`)
		}
		h.restarts()
		nodesStay := kept{nodes: was.nodes, deletes: h.deletes()}
		h.stays(nodesStay)
		if n := len(h.s.Cloud.Servers()); n != len(was.machines) {
			t.Errorf("%d servers, want %d", n, len(was.machines))
		}
	})
	t.Run("a Machine that an operator creates adopts the server that its annotation names (F-1, F-42)", func(t *testing.T) {
		h := h.in(t)
		for _, before := range was.machines {
			m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name, Labels: map[string]string{"restored": "yes"}}, Spec: before.Spec}
			m.Annotations = map[string]string{v1alpha1.AnnotationAdopt: provider.ServerIDOf(*before.Spec.ProviderID)}
			if err := h.s.Client.Create(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		h.usable(len(was.machines))
		h.marked()
		if n := h.s.Cloud.CallCount("POST /servers"); n != len(was.machines) {
			t.Errorf("%d servers were made, want %d", n, len(was.machines))
		}
	})
	t.Run("no node is left after the commands of docs/operations.md for removing drover together with its nodes (F-42)", func(t *testing.T) {
		h := h.in(t)
		h.shell.Run(t, "docs/operations.md#uninstall-with-nodes")
		h.gone(was.nodes)
	})
}
