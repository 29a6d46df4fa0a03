//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	slow = "slow"
	// standstill is how long the test watches a rollout while the cloud-controller-manager is stopped.
	standstill = 5 * time.Second
)

// TestRolloutsWhileNodesAreInitializedLate replaces two nodes by rollouts with a surge of 1 and none unavailable: first
// while the cloud-controller-manager is slow, then while it is stopped.
func TestRolloutsWhileNodesAreInitializedLate(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, BootTime: time.Second, NoAutoscaler: true, CloudControllerInterval: 4 * time.Second})
	d, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	group := badGroup{name: slow, replicas: "2", old: "  selector:", new: "  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n  selector:"}
	apply(t, s, slow, group.manifest(t, d))
	eventually(t, takingPods(s, 2, ""))
	usable := watchUsable(t, s)
	t.Run("a group of two keeps two nodes that accept pods during a rollout with a slow cloud-controller-manager (F-47)", func(t *testing.T) {
		roll(t, s, "second")
		eventually(t, takingPods(s, 2, "second"))
		neverFewer(t, usable, 2)
	})
	t.Run("a rollout waits and names the cause while the cloud-controller-manager is stopped, and completes after its restart (F-47)", func(t *testing.T) {
		s.KillCloudController()
		roll(t, s, "third")
		eventually(t, startingNode(s))
		standsStill(t, s)
		s.ReviveCloudController()
		eventually(t, takingPods(s, 2, "third"))
		neverFewer(t, usable, 2)
	})
	t.Run("a rollout completes without a cloud-controller-manager when an annotation says that the group needs none (F-47)", func(t *testing.T) {
		s.KillCloudController()
		patchTemplate(t, s, fmt.Sprintf(`"metadata":{"annotations":{%q:"false"}},"spec":{"metadata":{"labels":{"roll":"fourth"}}}`, bootstrap.AnnotationExternalCloudProvider))
		eventually(t, takingPods(s, 2, "fourth"))
		neverFewer(t, usable, 2)
	})
}

// patchTemplate merges fields into the template of the group.
func patchTemplate(t *testing.T, s *sandbox.Sandbox, fields string) {
	t.Helper()
	md := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: slow, Namespace: metav1.NamespaceSystem}}
	patch := []byte(`{"spec":{"template":{` + fields + `}}}`)
	if err := s.Client.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// roll starts a rollout: it sets the label roll of the group's nodes to value in the template.
func roll(t *testing.T, s *sandbox.Sandbox, value string) {
	t.Helper()
	patchTemplate(t, s, fmt.Sprintf(`"spec":{"metadata":{"labels":{"roll":%q}}}`, value))
}

// takingPods returns a check that there are exactly as many nodes as wanted, and that all of them accept pods and have
// this value of the label roll.
func takingPods(s *sandbox.Sandbox, want int, value string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var nodes corev1.NodeList
		if err := s.Client.List(ctx, &nodes); err != nil {
			return "", err
		}
		open := 0
		for i := range nodes.Items {
			if n := &nodes.Items[i]; sandbox.UsableNode(n) && n.Labels["roll"] == value {
				open++
			}
		}
		if open != want || len(nodes.Items) != want {
			return fmt.Sprintf("%d nodes that take pods: %d of %d", want, open, len(nodes.Items)), nil
		}
		return "", nil
	}
}

// startingNode returns a check that there are three Machines, and that one of them is not Running and reports that it
// waits for the cloud-controller-manager.
func startingNode(s *sandbox.Sandbox) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var machines v1alpha1.MachineList
		if err := s.Client.List(ctx, &machines); err != nil {
			return "", err
		}
		for i := range machines.Items {
			m := &machines.Items[i]
			for _, c := range m.Status.Conditions {
				if c.Type == v1alpha1.ConditionReady && c.Reason == "NodeStarting" && strings.Contains(c.Message, kubelet.UninitializedTaint) &&
					sandbox.PhaseOf(m) == v1alpha1.PhaseJoined && len(machines.Items) == 3 {
					return "", nil
				}
			}
		}
		return "three Machines, one of which waits for the cloud-controller-manager", nil
	}
}

// standsStill fails the test when a Machine is created or deleted within the time standstill.
func standsStill(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	before, began := machinesOf(t, s), time.Now()
	eventually(t, func(context.Context) (string, error) {
		if after := machinesOf(t, s); after != before {
			return "", fmt.Errorf("the Machines changed:\n%s\n%s", before, after)
		}
		if time.Since(began) < standstill {
			return "the end of the standstill", nil
		}
		return "", nil
	})
}

// machinesOf returns the names of all Machines with their deletion timestamps, as one text.
func machinesOf(t *testing.T, s *sandbox.Sandbox) string {
	t.Helper()
	var machines v1alpha1.MachineList
	if err := s.Client.List(t.Context(), &machines); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range machines.Items {
		m := &machines.Items[i]
		out = append(out, fmt.Sprintf("%s deleted at %v", m.Name, m.DeletionTimestamp))
	}
	return strings.Join(out, ", ")
}

// watchUsable counts the nodes that accept pods, again and again until the test ends.
func watchUsable(t *testing.T, s *sandbox.Sandbox) *sandbox.UsableNodes {
	t.Helper()
	usable := s.WatchUsableNodes(t.Context())
	t.Cleanup(usable.Stop)
	return usable
}

// neverFewer fails the test when any of the counts of usable nodes was smaller than wanted.
func neverFewer(t *testing.T, usable *sandbox.UsableNodes, want int) {
	t.Helper()
	if fewest, looks := usable.Fewest(); fewest < want || looks == 0 {
		t.Errorf("in one of %d looks only %d nodes took pods, want %d", looks, fewest, want)
	}
}
