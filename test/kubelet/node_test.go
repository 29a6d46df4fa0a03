package kubelet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	nodeutil "k8s.io/component-helpers/node/util"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAHeartbeatChangesOnlyTheConditionsOfTheKubelet(t *testing.T) {
	t.Run("heartbeats keep the condition of another program, such as node-problem-detector, and its times (F-77)", func(t *testing.T) {
		clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		ctx := t.Context()
		client := fake.NewClientset()
		n := &node{o: Options{Clock: clock, Heartbeat: time.Minute}.withDefaults(), s: &settings{name: "n1"}, client: client}
		if err := n.register(ctx); err != nil {
			t.Fatal(err)
		}
		registered, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		foreign := corev1.NodeCondition{
			Type: "KernelDeadlock", Status: corev1.ConditionTrue, Reason: "DockerHung", Message: "task hung",
			LastHeartbeatTime: metav1.NewTime(clock.Now()), LastTransitionTime: metav1.NewTime(clock.Now()),
		}
		registered.Status.Conditions = append([]corev1.NodeCondition{foreign}, registered.Status.Conditions...)
		if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, registered, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			clock.Step(time.Minute)
			if err := n.beat(ctx); err != nil {
				t.Fatal(err)
			}
		}
		got := map[corev1.NodeConditionType]corev1.NodeCondition{}
		beaten, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range beaten.Status.Conditions {
			got[c.Type] = c
		}
		if diff := cmp.Diff(foreign, got[foreign.Type]); diff != "" {
			t.Errorf("the other program's condition (-set +now):\n%s", diff)
		}
		if ready := got[corev1.NodeReady]; len(got) != 5 || !ready.LastHeartbeatTime.Time.Equal(clock.Now()) {
			t.Errorf("conditions: %+v", beaten.Status.Conditions)
		}
	})
}

func TestAKubeletThatFailsGoesOnReporting(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	client := fake.NewClientset()
	fails := false
	n := &node{o: Options{Clock: clock, Heartbeat: time.Minute, Fails: func() bool { return fails }}.withDefaults(), s: &settings{name: "n1"}, client: client}
	if err := n.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := clock.Now()
	for minute, step := range []struct {
		fails bool
		want  corev1.ConditionStatus
		// since is the minute of the condition's last transition.
		since int
	}{{false, corev1.ConditionTrue, 0}, {true, corev1.ConditionFalse, 2}, {true, corev1.ConditionFalse, 2}, {false, corev1.ConditionTrue, 4}} {
		fails = step.fails
		clock.Step(time.Minute)
		if err := n.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, ready := nodeutil.GetNodeCondition(&got.Status, corev1.NodeReady)
		since := began.Add(time.Duration(step.since) * time.Minute)
		if ready.Status != step.want || !ready.LastHeartbeatTime.Time.Equal(clock.Now()) || !ready.LastTransitionTime.Time.Equal(since) {
			t.Errorf("after minute %d the condition is %+v, want %s since %s and a heartbeat at %s", minute+1, ready, step.want, since, clock.Now())
		}
	}
}
