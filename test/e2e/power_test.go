//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const actions = "POST /servers/{id}/action"

func TestAServerThatIsShutDownOutsideOfDrover(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, NoAutoscaler: true})
	d, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	group := badGroup{name: "workers", replicas: "1"}
	apply(t, s, group.name, group.manifest(t, d))
	machine, server := onlyMember(t, s, group.name)
	node := nodeOf(t, s, machine.ServerName())
	t.Run("drover starts the server with one call, and the Machine and the Node stay (CAPI-33)", func(t *testing.T) {
		started := s.Cloud.CallCount(actions)
		s.Cloud.StopServer(server.ID)
		eventually(t, func(context.Context) (string, error) {
			if now, _ := s.Cloud.Server(server.ID); now.Status != "ACTIVE" {
				return "server " + server.ID + " to be ACTIVE, now " + now.Status, nil
			}
			return "", nil
		})
		again, _ := onlyMember(t, s, group.name)
		now := nodeOf(t, s, machine.ServerName())
		if again.UID != machine.UID || now.UID != node.UID || isOutOfService(now) || s.Cloud.CallCount(actions)-started != 1 {
			t.Errorf("Machine %s, then %s; Node %+v; %d actions", machine.UID, again.UID, now.Spec, s.Cloud.CallCount(actions)-started)
		}
	})
	t.Run("a deleted Machine whose server cannot be started is replaced, and an Event reports the Node as out of service", func(t *testing.T) {
		refused := badGroup{name: "refused", replicas: "1"}
		apply(t, s, refused.name, refused.manifest(t, d))
		machine, server := onlyMember(t, s, refused.name)
		clear := s.Cloud.Inject(openstack.Fault{Call: actions, Status: http.StatusConflict})
		defer clear()
		s.Cloud.StopServer(server.ID)
		eventually(t, func(ctx context.Context) (string, error) {
			return hasReason(ctx, s, machine, v1alpha1.ConditionServerReady, "ServerWontStart")
		})
		// The test waits until the Node is not Ready, because a Ready Node may run pods whatever the cloud reports about its
		// server. The health check may delete the Machine before the test does.
		eventually(t, func(ctx context.Context) (string, error) {
			var n corev1.Node
			err := s.Client.Get(ctx, types.NamespacedName{Name: machine.ServerName()}, &n)
			if err == nil && isReady(&n) {
				return "the Node not to be Ready", nil
			}
			return "", client.IgnoreNotFound(err)
		})
		if err := s.Client.Delete(t.Context(), &machine); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		eventually(t, func(ctx context.Context) (string, error) {
			var list eventsv1.EventList
			if err := s.Client.List(ctx, &list); err != nil {
				return "", err
			}
			for _, e := range list.Items {
				if e.Regarding.UID == machine.UID && e.Reason == "NodeOutOfService" {
					return "", nil
				}
			}
			return "the Event NodeOutOfService", nil
		})
		next, _ := onlyMember(t, s, refused.name)
		if next.UID == machine.UID {
			t.Errorf("Machine %s is still there", machine.Name)
		}
	})
}

func nodeOf(t *testing.T, s *sandbox.Sandbox, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := s.Client.Get(t.Context(), types.NamespacedName{Name: name}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isOutOfService(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

// hasReason returns an empty text when the Machine's condition has the reason, and otherwise a text that describes the
// wanted and the actual conditions.
func hasReason(ctx context.Context, s *sandbox.Sandbox, machine v1alpha1.Machine, condition, reason string) (string, error) {
	var m v1alpha1.Machine
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(&machine), &m); err != nil {
		return "", err
	}
	for _, c := range m.Status.Conditions {
		if c.Type == condition && c.Reason == reason {
			return "", nil
		}
	}
	return fmt.Sprintf("condition %s with reason %s; there is %s", condition, reason, strings.TrimSpace(fmt.Sprint(m.Status.Conditions))), nil
}
