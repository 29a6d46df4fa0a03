package drain

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// exclusive returns Volumes in which each pod has one volume that can be attached to only one node at a time.
func exclusive(pods ...string) Volumes {
	v := Volumes{Exclusive: map[types.UID][]string{}}
	for _, name := range pods {
		v.Exclusive[types.UID("uid-"+name)] = []string{"pv-" + name}
	}
	return v
}

func names(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func TestADrainPlanDecidesAboutThePodsOfANode(t *testing.T) {
	system := withPriority(systemCriticalPriority + 1000)
	tests := []struct {
		name                           string
		pods                           []corev1.Pod
		mode                           Mode
		volumes                        Volumes
		evict, waiting, later, skipped []string
		done                           bool
	}{
		{name: "has nothing to do on an empty node", done: true},
		{name: "does not evict pods of DaemonSets, mirror pods and pods that have ended (MC-60, MCM-68)",
			pods:    []corev1.Pod{pod("d", ofDaemonSet), pod("m", mirror), pod("s", succeeded), pod("f", failed)},
			skipped: []string{"d", "m", "s", "f"}, done: true},
		{name: "evicts all ordinary pods in one round, sorted by descending priority and then by name (MCM-60)",
			pods:  []corev1.Pod{pod("b"), pod("a"), pod("high", withPriority(5)), pod("low", withPriority(-2147483648))},
			evict: []string{"high", "a", "b", "low"}},
		{name: "treats a pod without a priority like a pod of priority 0 (MCM-65)",
			pods: []corev1.Pod{pod("none"), pod("one", withPriority(1))}, evict: []string{"one", "none"}},
		{name: "evicts system-critical pods last",
			pods: []corev1.Pod{pod("dns", system), pod("app")}, evict: []string{"app"}, later: []string{"dns"}},
		{name: "does not evict system-critical pods while other pods are terminating",
			pods: []corev1.Pod{pod("dns", system), pod("app", ending)}, waiting: []string{"app"}, later: []string{"dns"}},
		{name: "evicts system-critical pods when the other pods have ended",
			pods: []corev1.Pod{pod("dns", system), pod("done", succeeded)}, evict: []string{"dns"}, skipped: []string{"done"}},
		{name: "does not count the drain as complete while a pod is terminating", pods: []corev1.Pod{pod("app", ending)}, waiting: []string{"app"}},
		{name: "evicts all pods of an unreachable node at once, and waits for none (CAPI-39, MCM-56)",
			pods: []corev1.Pod{pod("dns", system), pod("app"), pod("old", ending)}, mode: Mode{Abrupt: true},
			evict: []string{"dns", "app"}, skipped: []string{"old"}},
		{name: "evicts pods with ReadWriteOnce volumes one after the other, in the order of priority (MCM-59)",
			pods: []corev1.Pod{pod("db-1"), pod("db-2", withPriority(7)), pod("app")}, volumes: exclusive("db-1", "db-2"),
			evict: []string{"db-2", "app"}, later: []string{"db-1"}},
		{name: "evicts no pod with a ReadWriteOnce volume while another such pod is terminating (MCM-59)",
			pods: []corev1.Pod{pod("db-1"), pod("db-2", ending), pod("app")}, volumes: exclusive("db-1", "db-2"),
			evict: []string{"app"}, waiting: []string{"db-2"}, later: []string{"db-1"}},
		{name: "evicts no pod with a ReadWriteOnce volume while the volume of another pod is being detached (MCM-59)",
			pods: []corev1.Pod{pod("db-1"), pod("app")}, volumes: Volumes{Exclusive: exclusive("db-1").Exclusive, Detaching: []string{"pv-2"}},
			evict: []string{"app"}, later: []string{"db-1"}},
		{name: "evicts a pod with a ReadWriteOnce volume while a pod without such a volume is terminating (MCM-60)",
			pods: []corev1.Pod{pod("db-1"), pod("app", ending)}, volumes: exclusive("db-1"), evict: []string{"db-1"}, waiting: []string{"app"}},
	}
	for _, tt := range tests {
		t.Run("the plan "+tt.name, func(t *testing.T) {
			p := MakePlan(tt.pods, tt.mode, tt.volumes)
			for _, part := range []struct {
				name string
				got  []*corev1.Pod
				want []string
			}{{"evict", p.Evict, tt.evict}, {"waiting", p.Waiting, tt.waiting}, {"later", p.Later, tt.later}, {"skipped", p.Skipped, tt.skipped}} {
				if !slices.Equal(names(part.got), part.want) {
					t.Errorf("MakePlan().%s = %v, want %v", part.name, names(part.got), part.want)
				}
			}
			if p.Done() != tt.done {
				t.Errorf("Done() = %v", p.Done())
			}
		})
	}
}
