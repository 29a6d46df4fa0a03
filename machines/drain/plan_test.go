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

func uids(names []string) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, name := range names {
		out[types.UID("uid-"+name)] = true
	}
	return out
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
	budget := Answer{Reason: "the budget allows no disruption", Budget: true}
	tests := []struct {
		name    string
		pods    []corev1.Pod
		mode    Mode
		volumes Volumes
		// overdue and returning hold names of pods. answers holds, by the name of a pod, why its eviction was refused in this round; empty
		// when it was granted. asked is true when the returning pods were evicted in an earlier round.
		overdue, returning []string
		answers            map[string]Answer
		asked              bool

		evict, waiting, later, skipped, refused []string
		done                                    bool
	}{
		{name: "has nothing to do on an empty node", done: true},
		{name: "does not evict pods of DaemonSets, mirror pods and pods that have ended (MC-60, MCM-68)",
			pods:    []corev1.Pod{pod("d", ofDaemonSet), pod("m", mirror), pod("s", succeeded), pod("f", failed)},
			skipped: []string{"d", "m", "s", "f"}, done: true},
		{name: "does not wait for a pod that has ended and that a finalizer keeps (report 113)",
			pods: []corev1.Pod{pod("job", succeeded, ending), pod("app")}, answers: map[string]Answer{"app": budget}, skipped: []string{"job"}, refused: []string{"app"}},
		{name: "is done when only ended pods are left, although a finalizer keeps them and nothing owns them (report 113, report 114)",
			pods: []corev1.Pod{pod("job", succeeded, ending), pod("bare", failed, ending)}, skipped: []string{"job", "bare"}, done: true},
		{name: "evicts a pod with a ReadWriteOnce volume beside an ended pod without an owner that has one, too (report 114)",
			pods: []corev1.Pod{pod("bare", failed), pod("db")}, volumes: exclusive("bare", "db"), evict: []string{"db"}, skipped: []string{"bare"}},
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

		{name: "evicts the next pod with a ReadWriteOnce volume when the eviction of the one before is refused (F-136)",
			pods: []corev1.Pod{pod("db-1"), pod("db-2"), pod("db-3")}, volumes: exclusive("db-1", "db-2", "db-3"), answers: map[string]Answer{"db-1": budget},
			evict: []string{"db-2"}, later: []string{"db-3"}, refused: []string{"db-1"}},
		{name: "evicts no further pod with a ReadWriteOnce volume when one eviction is granted (MCM-59)",
			pods: []corev1.Pod{pod("db-1"), pod("db-2")}, volumes: exclusive("db-1", "db-2"), answers: map[string]Answer{"db-1": {}},
			waiting: []string{"db-1"}, later: []string{"db-2"}},
		{name: "evicts system-critical pods when the evictions of all other pods are refused (F-136)",
			pods: []corev1.Pod{pod("dns", system), pod("app")}, answers: map[string]Answer{"app": budget}, evict: []string{"dns"}, refused: []string{"app"}},
		{name: "does not evict system-critical pods while a pod with a ReadWriteOnce volume waits for its turn",
			pods: []corev1.Pod{pod("dns", system), pod("db")}, volumes: Volumes{Exclusive: exclusive("db").Exclusive, Detaching: []string{"pv-2"}}, later: []string{"db", "dns"}},
		{name: "waits for a refused eviction, and for nothing else",
			pods: []corev1.Pod{pod("app")}, answers: map[string]Answer{"app": budget}, refused: []string{"app"}},
		{name: "makes no pod wait for a pod that does not end (F-136, F-143)",
			pods: []corev1.Pod{pod("dns", system), pod("db"), pod("stuck", ending)}, volumes: exclusive("db", "stuck"), overdue: []string{"stuck"},
			evict: []string{"db"}, later: []string{"dns"}},
		{name: "waits for a pod that does not end until the time of the drain is over",
			pods: []corev1.Pod{pod("stuck", ending)}, overdue: []string{"stuck"}},

		{name: "evicts all pods at once when the time of the drain is over (F-136)",
			pods: []corev1.Pod{pod("dns", system), pod("db-1"), pod("db-2"), pod("app")}, volumes: exclusive("db-1", "db-2"), mode: Mode{Final: true},
			evict: []string{"dns", "app", "db-1", "db-2"}},
		{name: "waits for the grace periods of the pods after the time of the drain is over (F-138)",
			pods: []corev1.Pod{pod("app", ending), pod("db")}, mode: Mode{Final: true}, answers: map[string]Answer{"db": {}}, waiting: []string{"app", "db"}},
		{name: "waits neither for refused evictions nor for pods that do not end after the time of the drain is over (F-138)",
			pods: []corev1.Pod{pod("app"), pod("stuck", ending)}, mode: Mode{Final: true}, overdue: []string{"stuck"}, answers: map[string]Answer{"app": budget},
			refused: []string{"app"}, done: true},

		{name: "does not wait for a disruption budget when no other node can take the pods (F-140, MC-60)",
			pods: []corev1.Pod{pod("app")}, mode: Mode{NoTarget: true}, answers: map[string]Answer{"app": budget}, refused: []string{"app"}, done: true},
		{name: "waits for pods that end when no other node can take them (F-140)",
			pods: []corev1.Pod{pod("app", ending), pod("web")}, mode: Mode{NoTarget: true}, answers: map[string]Answer{"web": budget}, waiting: []string{"app"}, refused: []string{"web"}},
		{name: "evicts pods in the usual order when no other node can take them (F-140)",
			pods: []corev1.Pod{pod("dns", system), pod("db-1"), pod("db-2")}, volumes: exclusive("db-1", "db-2"), mode: Mode{NoTarget: true}, evict: []string{"db-1"}, later: []string{"db-2", "dns"}},
		{name: "waits for an eviction that was not answered when no other node can take the pod (F-140)",
			pods: []corev1.Pod{pod("app")}, mode: Mode{NoTarget: true}, answers: map[string]Answer{"app": {Reason: noAnswer}}, refused: []string{"app"}},

		{name: "does not evict a pod that would only come again while other pods are on the node (F-137)",
			pods: []corev1.Pod{pod("operator"), pod("app")}, returning: []string{"operator"}, answers: map[string]Answer{"app": budget}, refused: []string{"app"}},
		{name: "evicts a pod that would only come again after all other pods (F-137)",
			pods: []corev1.Pod{pod("operator")}, returning: []string{"operator"}, evict: []string{"operator"}},
		{name: "does not wait for a pod that would only come again (F-137)",
			pods: []corev1.Pod{pod("operator")}, returning: []string{"operator"}, answers: map[string]Answer{"operator": {}}, done: true},
		{name: "evicts a pod that would only come again only once in a drain (F-137)",
			pods: []corev1.Pod{pod("operator")}, returning: []string{"operator"}, asked: true, done: true},
		{name: "evicts a pod that would only come again together with all others when the time of the drain is over (F-137)",
			pods: []corev1.Pod{pod("operator"), pod("app")}, returning: []string{"operator"}, mode: Mode{Final: true}, evict: []string{"app", "operator"}},
	}
	for _, tt := range tests {
		t.Run("the plan "+tt.name, func(t *testing.T) {
			state := &State{Pods: tt.pods, Mode: tt.mode, Volumes: tt.volumes, Overdue: uids(tt.overdue), Returning: uids(tt.returning), ReturningAsked: tt.asked, Answers: map[types.UID]Answer{}}
			for name, answer := range tt.answers {
				state.Answers[types.UID("uid-"+name)] = answer
			}
			p := MakePlan(state)
			for _, part := range []struct {
				name string
				got  []*corev1.Pod
				want []string
			}{{"evict", p.Evict, tt.evict}, {"waiting", p.Waiting, tt.waiting}, {"later", p.Later, tt.later}, {"skipped", p.Skipped, tt.skipped}, {"refused", p.Refused, tt.refused}, {"overdue", p.Overdue, tt.overdue}} {
				if !slices.Equal(names(part.got), part.want) {
					t.Errorf("MakePlan().%s = %v, want %v", part.name, names(part.got), part.want)
				}
			}
			if p.Done != tt.done {
				t.Errorf("Done = %v", p.Done)
			}
		})
	}
}
