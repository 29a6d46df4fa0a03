package drain

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func pod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func ofDaemonSet(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
}
func mirror(p *corev1.Pod)    { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
func failed(p *corev1.Pod)    { p.Status.Phase = corev1.PodFailed }
func ending(p *corev1.Pod)    { p.DeletionTimestamp = ptr.To(metav1.Now()) }
func withPriority(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &n }
}

// exclusive gives each of the pods a volume that only its node can have.
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

func TestMakePlan(t *testing.T) {
	system := withPriority(systemCriticalPriority + 1000)
	tests := []struct {
		name                           string
		pods                           []corev1.Pod
		mode                           Mode
		volumes                        Volumes
		evict, waiting, later, skipped []string
		done                           bool
	}{
		{name: "an empty node is drained", done: true},
		{name: "MC-60 MCM-68 DaemonSet, mirror and ended pods stay and block nothing",
			pods:    []corev1.Pod{pod("d", ofDaemonSet), pod("m", mirror), pod("s", succeeded), pod("f", failed)},
			skipped: []string{"d", "m", "s", "f"}, done: true},
		{name: "MCM-60 all others are evicted at once, in the order of priority and name",
			pods:  []corev1.Pod{pod("b"), pod("a"), pod("high", withPriority(5)), pod("low", withPriority(-2147483648))},
			evict: []string{"high", "a", "b", "low"}},
		{name: "MCM-65 a pod without a priority counts as 0",
			pods: []corev1.Pod{pod("none"), pod("one", withPriority(1))}, evict: []string{"one", "none"}},
		{name: "what the cluster depends on goes last",
			pods: []corev1.Pod{pod("dns", system), pod("app")}, evict: []string{"app"}, later: []string{"dns"}},
		{name: "and not before the others have ended",
			pods: []corev1.Pod{pod("dns", system), pod("app", ending)}, waiting: []string{"app"}, later: []string{"dns"}},
		{name: "and then it goes",
			pods: []corev1.Pod{pod("dns", system), pod("done", succeeded)}, evict: []string{"dns"}, skipped: []string{"done"}},
		{name: "pods that are ending are waited for", pods: []corev1.Pod{pod("app", ending)}, waiting: []string{"app"}},
		{name: "CAPI-39 MCM-56 on an unreachable node all go at once and ending ones are not waited for",
			pods: []corev1.Pod{pod("dns", system), pod("app"), pod("old", ending)}, mode: Mode{Abrupt: true},
			evict: []string{"dns", "app"}, skipped: []string{"old"}},
		{name: "MCM-59 pods with volumes of their own go one by one, the most important first, beside all others",
			pods: []corev1.Pod{pod("db-1"), pod("db-2", withPriority(7)), pod("app")}, volumes: exclusive("db-1", "db-2"),
			evict: []string{"db-2", "app"}, later: []string{"db-1"}},
		{name: "MCM-59 the next one waits while one is ending",
			pods: []corev1.Pod{pod("db-1"), pod("db-2", ending), pod("app")}, volumes: exclusive("db-1", "db-2"),
			evict: []string{"app"}, waiting: []string{"db-2"}, later: []string{"db-1"}},
		{name: "MCM-59 and while its volume is still attached",
			pods: []corev1.Pod{pod("db-1"), pod("app")}, volumes: Volumes{Exclusive: exclusive("db-1").Exclusive, Detaching: []string{"pv-2"}},
			evict: []string{"app"}, later: []string{"db-1"}},
		{name: "MCM-60 a pod that is ending without such a volume holds nothing up",
			pods: []corev1.Pod{pod("db-1"), pod("app", ending)}, volumes: exclusive("db-1"), evict: []string{"db-1"}, waiting: []string{"app"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := MakePlan(tt.pods, tt.mode, tt.volumes)
			for _, part := range []struct {
				name string
				got  []*corev1.Pod
				want []string
			}{{"evict", p.Evict, tt.evict}, {"waiting", p.Waiting, tt.waiting}, {"later", p.Later, tt.later}, {"skipped", p.Skipped, tt.skipped}} {
				if !slices.Equal(names(part.got), part.want) {
					t.Errorf("%s: got %v, want %v", part.name, names(part.got), part.want)
				}
			}
			if p.Done() != tt.done {
				t.Errorf("done: got %v", p.Done())
			}
		})
	}
}
