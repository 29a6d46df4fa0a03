package scenario

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/sandbox"
)

const workloadName = "work"

// workload creates pods so large that no two fit on one node: each requests 60 % of a node of the group.
func (d *Demo) workload(ctx context.Context, pods int) error {
	m, err := d.members(ctx)
	if err != nil {
		return err
	}
	if len(m.nodes) == 0 {
		return fmt.Errorf("making pods: there is no node to measure")
	}
	offered := m.nodes[0].Status.Allocatable[corev1.ResourceCPU]
	labels := map[string]string{"app": workloadName}
	work := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: workloadName, Namespace: corev1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(pods)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To(int64(1)),
					Containers: []corev1.Container{{
						Name: "work", Image: "example.invalid/work",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: *resource.NewMilliQuantity(offered.MilliValue()*6/10, resource.DecimalSI),
						}},
					}},
				},
			},
		},
	}
	if err := d.Client.Create(ctx, work); err != nil {
		return fmt.Errorf("making pods: %w", err)
	}
	return nil
}

// noWorkload deletes the pods of the workload.
func (d *Demo) noWorkload(ctx context.Context) error {
	return d.kubectl(ctx, "delete", "deployment", workloadName, "--wait=false")
}

func (d *Demo) pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := d.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{"app": workloadName}); err != nil {
		return nil, fmt.Errorf("looking at pods: %w", err)
	}
	return pods.Items, nil
}

// running returns a check that as many pods as wanted run, and that there are no other pods.
func (d *Demo) running(want int) check {
	return func(ctx context.Context) (string, error) {
		pods, err := d.pods(ctx)
		if err != nil {
			return "", err
		}
		return allRun(pods, want), nil
	}
}

// allRun returns what is missing until exactly the wanted number of pods exist and all of them run, or "".
func allRun(pods []corev1.Pod, want int) string {
	running := 0
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp == nil {
			running++
		}
	}
	if running != want || len(pods) != want {
		return fmt.Sprintf("%d pods to run: now %d of %d", want, running, len(pods))
	}
	return ""
}

// firstJoin watches the unschedulable pods until one of them is bound to a usable node that is newer than the pods. It
// ignores a pod that is unschedulable for a moment and then fits on an old node because the scheduler noticed that node
// late.
type firstJoin struct {
	// old holds the nodes that are older than the pods.
	old map[string]bool
	// waiting holds the time since which each pod has been unschedulable.
	waiting map[string]time.Time
	// took is how long the first pod with a new node waited for that node. joined is true once a pod has a new node.
	took   time.Duration
	joined bool
}

func newFirstJoin(before []corev1.Node) *firstJoin {
	f := &firstJoin{old: map[string]bool{}, waiting: map[string]time.Time{}}
	for i := range before {
		f.old[before[i].Name] = true
	}
	return f
}

func (f *firstJoin) look(pods []corev1.Pod, nodes []corev1.Node, now time.Time) {
	usable := map[string]bool{}
	for i := range nodes {
		usable[nodes[i].Name] = sandbox.UsableNode(&nodes[i])
	}
	for i := range pods {
		p := &pods[i]
		since, waited := f.waiting[p.Name]
		switch node := p.Spec.NodeName; {
		case !waited && unschedulable(p):
			f.waiting[p.Name] = now
		case waited && !f.joined && node != "" && !f.old[node] && usable[node]:
			f.took, f.joined = now.Sub(since), true
		}
	}
}

func unschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return p.Spec.NodeName == ""
		}
	}
	return false
}
