//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/neighbours"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	// webhookTakes is how long the webhook takes for each eviction.
	webhookTakes = 7 * time.Second
	// takenLabel and takenTaint are of the group's template, and another program takes them from each node.
	takenLabel, takenTaint = "team", "dedicated"
	// heldFinalizer keeps a pod that was evicted.
	heldFinalizer = "example.com/held"
	refusal       = "no evictions on Fridays"
	// mostNodeWrites is how often drover may write one Node object in its life: at most twice at its first start, six times to put back what
	// another program takes (three times the label and three times the taint), and twice in a deletion.
	mostNodeWrites = 10
)

// agentRuns reports whether the agent of the network plugin runs on a node, a time after the node was first seen: it starts, ends, and starts
// again.
func agentRuns(seen time.Duration) bool {
	return seen > 2500*time.Millisecond || seen > time.Second && seen < 1500*time.Millisecond
}

// crowd is a herd with other programs that write its nodes.
type crowd struct {
	herd
	webhook *neighbours.EvictionWebhook
}

func newCrowd(t *testing.T) crowd {
	t.Helper()
	h := newEmptyHerd(t, func(o *sandbox.Options) {
		o.Heartbeat = time.Second
		o.DroverFlags = []string{"--health-timeout=20s", "--startup-requires=taint:" + neighbours.AgentTaint}
	})
	c := crowd{h, neighbours.NewEvictionWebhook()}
	t.Cleanup(c.webhook.Close)
	c.create(c.webhook.Configuration())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		neighbours.Run(ctx, h.s.Target.Config, func(err error) { t.Log(err) },
			neighbours.NetworkPlugin(clock.RealClock{}, corev1.TaintEffectNoExecute, agentRuns),
			neighbours.FeatureDiscovery(), neighbours.StorageDriver(), neighbours.Remover(takenLabel, takenTaint))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	d, err := scenario.NewDemo(h.s)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, h.s, h.group, marked(t, badGroup{name: h.group, replicas: "3"}.manifest(t, d)))
	return c
}

func (c crowd) in(t *testing.T) crowd { return crowd{c.herd.in(t), c.webhook} }

func (c crowd) create(objects ...client.Object) {
	c.Helper()
	for _, o := range objects {
		if err := c.s.Client.Create(c.Context(), o); err != nil {
			c.Fatal(err)
		}
	}
}

// condition waits until a condition of a Machine has the status and its message all of the texts.
func (c crowd) condition(machine, condition string, status corev1.ConditionStatus, says ...string) {
	c.Helper()
	eventually(c.T, func(ctx context.Context) (string, error) {
		var m v1alpha1.Machine
		if err := c.s.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: machine}, &m); err != nil {
			return "", err
		}
		got := m.Condition(condition)
		for _, text := range says {
			if !strings.Contains(got.Message, text) {
				return fmt.Sprintf("%q in the condition %s of Machine %s: %s", text, condition, machine, got.Message), nil
			}
		}
		if got.Status != status {
			return fmt.Sprintf("condition %s=%s of Machine %s: %+v", condition, status, machine, got), nil
		}
		return "", nil
	})
}

// started waits until the Machine's node is usable, its first start is complete, and the network plugin's agent runs for good.
func (c crowd) started(machine string) {
	c.Helper()
	c.condition(machine, v1alpha1.ConditionReady, corev1.ConditionTrue)
	eventually(c.T, func(ctx context.Context) (string, error) {
		var n corev1.Node
		if err := c.s.Client.Get(ctx, client.ObjectKey{Name: machine}, &n); err != nil {
			return "", err
		}
		agent := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == neighbours.AgentTaint })
		if agent || !sandbox.UsableNode(&n) || time.Since(n.CreationTimestamp.Time) < 4*time.Second {
			return fmt.Sprintf("a usable node without the taint of the network plugin: %+v", n.Spec.Taints), nil
		}
		return "", nil
	})
}

// server returns the ID of a Machine's server.
func (c crowd) server(machine string) string {
	c.Helper()
	for _, s := range c.s.Cloud.Servers() {
		if s.Name == machine {
			return s.ID
		}
	}
	c.Fatalf("there is no server %s", machine)
	return ""
}

// pod returns a pod that runs only on one node.
func (c crowd) pod(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceDefault, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node}, TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Tolerations: append(tolerations, corev1.Toleration{Key: takenTaint, Operator: corev1.TolerationOpExists}),
			Containers:  []corev1.Container{{Name: "c", Image: "example.invalid/c"}},
		},
	}
}

// replicated returns a Deployment of one such pod.
func (c crowd) replicated(name, node string, tolerations ...corev1.Toleration) *appsv1.Deployment {
	p := c.pod(name, node, tolerations...)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.Namespace}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: p.Labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec},
	}}
}

// running waits until a pod with the label app runs, and returns it.
func (c crowd) running(app string) (out corev1.Pod) {
	c.Helper()
	eventually(c.T, func(ctx context.Context) (string, error) {
		var pods corev1.PodList
		if err := c.s.TargetClient.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{"app": app}); err != nil {
			return "", err
		}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				out = p
				return "", nil
			}
		}
		return "a running pod " + app, nil
	})
	return out
}

// told waits until an Event about the Machine has the reason and all of the texts.
func (c crowd) told(machine, reason string, says ...string) {
	c.Helper()
	eventually(c.T, func(ctx context.Context) (string, error) {
		var list eventsv1.EventList
		if err := c.s.Client.List(ctx, &list); err != nil {
			return "", err
		}
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.Name != machine || e.Reason != reason {
				continue
			}
			if !slices.ContainsFunc(says, func(text string) bool { return !strings.Contains(e.Note, text) }) {
				return "", nil
			}
			notes = append(notes, e.Note)
		}
		return fmt.Sprintf("an Event %s of Machine %s with %q: %q", reason, machine, says, notes), nil
	})
}

// nodeWrites returns how often drover has written each Node object so far, and how many of its requests were refused with a conflict.
func (c crowd) nodeWrites() (writes map[string]int, conflicts int) {
	c.Helper()
	requests, err := c.s.Target.Requests()
	if err != nil {
		c.Fatal(err)
	}
	writes = map[string]int{}
	for _, r := range requests {
		if r.User != "system:serviceaccount:"+sandbox.Namespace+":drover" || r.Resource != "nodes" {
			continue
		}
		if r.Wrote() {
			writes[r.Name]++
		}
		if r.Code == http.StatusConflict {
			conflicts++
		}
	}
	return writes, conflicts
}

func TestDroverAmongOtherProgramsThatWriteItsNodes(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.usable(3)
	was := c.look()
	var names []string
	for _, m := range was.machines {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	again, silent, deleted := names[0], names[1], names[2]
	t.Run("the first starts complete although the network plugin's taint comes and goes, and the Machines warn about what another program takes away", func(t *testing.T) {
		c := c.in(t)
		for _, name := range names {
			c.started(name)
			c.condition(name, v1alpha1.ConditionWarnings, corev1.ConditionTrue, "label "+takenLabel, "taint "+takenTaint, "another program keeps removing it")
		}
	})
	t.Run("the node template has what other programs put on all nodes, and not the label in which the nodes differ", func(t *testing.T) { c.in(t).learns() })
	t.Run("the Machine whose Node a user deleted keeps its server when the kubelet registers again", func(t *testing.T) {
		c := c.in(t)
		c.kubectl("delete", "node", again)
		c.s.RestartKubelets()
		eventually(t, func(ctx context.Context) (string, error) {
			var n corev1.Node
			err := c.s.TargetClient.Get(ctx, client.ObjectKey{Name: again}, &n)
			if err != nil || n.UID == was.nodes[again] {
				return "node " + again + " to register again", client.IgnoreNotFound(err)
			}
			return "", nil
		})
		c.started(again)
	})
	t.Run("the drain of a deleted Machine begins with pods that cannot leave", func(t *testing.T) { c.in(t).deletes(deleted) })
	t.Run("a node that is not Ready for a moment three times stays, and each time is counted", func(t *testing.T) {
		c := c.in(t)
		id, before := c.server(silent), c.notReady()
		for range 3 {
			c.s.FailKubelets(id)
			c.condition(silent, v1alpha1.ConditionReady, corev1.ConditionFalse)
			c.s.MendKubelets(id)
			c.condition(silent, v1alpha1.ConditionReady, corev1.ConditionTrue)
		}
		c.told(silent, "NodeNotReady")
		// On a slow machine other nodes may miss their heartbeats meanwhile.
		if counted := c.notReady() - before; counted < 3 {
			t.Errorf("%v changes to not Ready were counted, want 3", counted)
		}
	})
	t.Run("a node whose kubelet reports that it is not Ready is replaced, and its drain waits for a disruption budget", func(t *testing.T) { c.in(t).fails(silent) })
	t.Run("a drain ends after its time although a pod has a finalizer and a webhook refuses another, and an Event names both", func(t *testing.T) {
		c := c.in(t)
		c.told(deleted, "DrainTimedOut", "default/held", heldFinalizer, "default/refused", refusal)
		c.vanishes(deleted)
	})
	t.Run("nothing else is replaced, and drover writes each Node a few times", func(t *testing.T) {
		c := c.in(t)
		c.usable(3)
		made := c.s.Cloud.CallCount("POST /servers")
		if made != 5 {
			t.Errorf("%d servers were made, want three and two for the replaced ones", made)
		}
		if m, err := c.machines(t.Context()); err != nil || len(m) != 3 {
			t.Errorf("%d Machines (%v), want 3", len(m), err)
		}
		c.started(again)
		writes, conflicts := c.nodeWrites()
		t.Logf("writes of Nodes: %v, conflicts: %d; the slowest eviction took %s", writes, conflicts, c.webhook.Slowest())
		for node, n := range writes {
			most := mostNodeWrites
			if node == again {
				most *= 2
			}
			if n > most {
				t.Errorf("drover wrote node %s %d times, want at most %d", node, n, most)
			}
		}
		if c.webhook.Slowest() < webhookTakes {
			t.Errorf("no eviction waited %s for the webhook", webhookTakes)
		}
	})
}

// notReady returns how often drover has seen a node that was no longer Ready.
func (c crowd) notReady() float64 {
	c.Helper()
	value, err := c.metric(c.Context(), "drover_machine_node_not_ready_total")
	if err != nil {
		c.Fatal(err)
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// learns waits until the group's node template has what other programs have put on all nodes.
func (c crowd) learns() {
	c.Helper()
	eventually(c.T, func(ctx context.Context) (string, error) {
		var d v1alpha1.MachineDeployment
		if err := c.s.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: c.group}, &d); err != nil {
			return "", err
		}
		template := d.Status.NodeTemplate
		if template == nil {
			return "a node template", nil
		}
		for key, value := range neighbours.SharedFeatures() {
			if template.Labels[key] != value {
				return fmt.Sprintf("%s=%s in the node template: %v", key, value, template.Labels), nil
			}
		}
		if template.Labels[neighbours.StorageZone] == "" || template.Labels[takenLabel] != "blue" {
			return fmt.Sprintf("%s and %s in the node template: %v", neighbours.StorageZone, takenLabel, template.Labels), nil
		}
		for _, own := range []string{neighbours.ModelLabel, kubelet.HostLabel} {
			if value, there := template.Labels[own]; there {
				return fmt.Sprintf("no label of one node in the node template: %s=%s", own, value), nil
			}
		}
		if pages, there := template.Capacity["hugepages-2Mi"]; !there || !pages.IsZero() {
			return fmt.Sprintf("huge pages of size 0 in the node template: %v", template.Capacity), nil
		}
		return "", nil
	})
}

// deletes creates pods on the Machine's node, deletes the Machine, and waits until its condition names the pods that cannot leave.
func (c crowd) deletes(machine string) {
	c.Helper()
	held, patient := c.pod("held", machine), c.pod("patient", machine)
	held.Finalizers = []string{heldFinalizer}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	c.create(held, patient, c.pod("refused", machine), c.replicated("everything", machine, everything))
	c.running("held")
	c.running("patient")
	c.running("refused")
	before := c.running("everything")
	c.webhook.Takes(webhookTakes)
	c.webhook.Refuse("refused", refusal)
	c.kubectl("-n", metav1.NamespaceSystem, "annotate", "machines.cluster.k8s.io", machine, v1alpha1.AnnotationDrainTimeout+"=45s")
	c.kubectl("-n", metav1.NamespaceSystem, "delete", "machines.cluster.k8s.io", machine, "--wait=false")
	c.condition(machine, v1alpha1.ConditionDeleting, corev1.ConditionTrue, "default/refused", refusal)
	eventually(c.T, func(ctx context.Context) (string, error) {
		if err := c.s.TargetClient.Get(ctx, client.ObjectKeyFromObject(patient), patient); !apierrors.IsNotFound(err) {
			return "pod patient to be evicted in spite of the slow webhook", err
		}
		return "", nil
	})
	if next := c.running("everything"); next.UID == before.UID || next.Spec.NodeName != machine {
		c.Errorf("the pod that tolerates everything: %s on %s, want another one than %s on the same node", next.UID, next.Spec.NodeName, before.UID)
	}
}

// fails makes the Machine's node not Ready while a disruption budget protects a pod on it, and waits until the Machine is replaced.
func (c crowd) fails(machine string) {
	c.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Namespace: corev1.NamespaceDefault}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
	}}
	c.create(budget, c.replicated("guarded", machine))
	guarded := c.running("guarded")
	c.s.FailKubelets(c.server(machine))
	c.condition(machine, v1alpha1.ConditionDeleting, corev1.ConditionTrue, "default/"+guarded.Name, "disruption budget")
	c.server(machine)
	n := c.node(machine)
	if ready := v1alpha1.NodeReady(n); ready.Status != corev1.ConditionFalse || time.Since(ready.LastHeartbeatTime.Time) > 10*time.Second {
		c.Errorf("the node's condition Ready is %+v, want False with fresh heartbeats", ready)
	}
	var p corev1.Pod
	if err := c.s.TargetClient.Get(c.Context(), client.ObjectKeyFromObject(&guarded), &p); err != nil || p.UID != guarded.UID || p.DeletionTimestamp != nil {
		c.Errorf("the guarded pod is %s, deleted at %v (%v)", p.UID, p.DeletionTimestamp, err)
	}
	if err := c.s.TargetClient.Delete(c.Context(), budget); err != nil {
		c.Fatal(err)
	}
	c.vanishes(machine)
}

func (c crowd) node(name string) *corev1.Node {
	c.Helper()
	n := &corev1.Node{}
	if err := c.s.TargetClient.Get(c.Context(), types.NamespacedName{Name: name}, n); err != nil {
		c.Fatal(err)
	}
	return n
}

// vanishes waits until the Machine, its Node and its server are gone.
func (c crowd) vanishes(machine string) {
	c.Helper()
	eventually(c.T, gone(c.s, machine))
}
