package day

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// podCPU is what a pod requests, in thousandths of a CPU. Two pods fit on a Node.
const podCPU = 1500

// level is a number of pods, from the given hour of the day on.
type level struct{ hour, pods int }

// load is the number of pods of a day. Two pods fit on a Node.
var load = []level{{0, 6}, {6, 12}, {7, 18}, {8, 26}, {10, 32}, {12, 24}, {14, 32}, {17, 22}, {19, 30}, {20, 16}, {22, 6}, {24, 4}}

// wanted returns the number of pods wanted now.
func (w *World) wanted() (n int) {
	for _, l := range w.load {
		if w.time() >= time.Duration(l.hour)*time.Hour {
			n = l.pods
		}
	}
	return n
}

// stepPods does one round of what ReplicaSets, the scheduler and the kubelets do: it creates pods, binds them to Nodes, starts them and
// removes those that are being deleted.
func (w *World) stepPods(nodes []corev1.Node, pods []corev1.Pod) {
	there, room := map[string]bool{}, map[string]int64{}
	for i := range nodes {
		there[nodes[i].Name] = true
		if takesPods(&nodes[i]) {
			room[nodes[i].Name] = nodes[i].Status.Allocatable.Cpu().MilliValue()
		}
	}
	for i := range pods {
		room[pods[i].Spec.NodeName] -= podCPU
	}
	for i := range w.count(pods) {
		p := &pods[i]
		node := p.Spec.NodeName
		switch {
		case node != "" && !there[node], p.DeletionTimestamp != nil && !w.isSilent(node):
			w.mayBeGone(w.Admin.Delete(w.ctx, p, client.GracePeriodSeconds(0)))
		case p.DeletionTimestamp != nil:
		case node == "":
			w.place(p, nodes, room)
		case w.isUnreachable(node):
			w.mayBeGone(w.Admin.Delete(w.ctx, p))
		case p.Status.Phase != corev1.PodRunning && !w.isSilent(node):
			w.podStatus(p, corev1.PodRunning, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		}
	}
}

// isSilent reports whether the kubelet of a Node does nothing for its pods.
func (w *World) isSilent(node string) bool {
	h := w.nodes[node]
	return h != nil && time.Since(h.reported) > 0
}

// takesPods reports whether a pod without tolerations may be placed on a Node.
func takesPods(n *corev1.Node) bool {
	closed := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
	return !closed && !n.Spec.Unschedulable && v1alpha1.NodeReady(n).Status == corev1.ConditionTrue
}

// count creates missing pods and deletes excess pods, pending ones first. It returns the pods.
func (w *World) count(pods []corev1.Pod) []corev1.Pod {
	var have []*corev1.Pod
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			have = append(have, &pods[i])
		}
	}
	want := w.wanted()
	for range want - len(have) {
		w.must(w.Admin.Create(w.ctx, w.newPod()))
	}
	slices.SortFunc(have, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(len(b.Spec.NodeName), len(a.Spec.NodeName)), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range have[min(len(have), want):] {
		w.mayBeGone(w.Admin.Delete(w.ctx, p, client.GracePeriodSeconds(0)))
		p.DeletionTimestamp = ptr.To(metav1.Now())
	}
	return pods
}

func (w *World) newPod() *corev1.Pod {
	w.serial++
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("work-%06d", w.serial), Namespace: metav1.NamespaceDefault, Labels: w.replicas.Spec.Selector.MatchLabels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.replicas.Name, UID: w.replicas.UID, Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(5)),
			Containers: []corev1.Container{{
				Name: "work", Image: "work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(podCPU, resource.DecimalSI)}},
			}},
		},
	}
}

// place does what the scheduler does: it binds a pod to the first Node with room.
func (w *World) place(p *corev1.Pod, nodes []corev1.Node, room map[string]int64) {
	for i := range nodes {
		name := nodes[i].Name
		if room[name] < podCPU {
			continue
		}
		room[name] -= podCPU
		before := p.DeepCopy()
		p.Spec.NodeName = name
		w.mayBeGone(w.Admin.Patch(w.ctx, p, client.MergeFrom(before)))
		return
	}
	if len(p.Status.Conditions) == 0 {
		w.podStatus(p, corev1.PodPending, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
	}
}

func (w *World) podStatus(p *corev1.Pod, phase corev1.PodPhase, condition corev1.PodCondition) {
	before := p.DeepCopy()
	condition.LastTransitionTime = metav1.Now()
	p.Status.Phase, p.Status.Conditions = phase, []corev1.PodCondition{condition}
	w.mayBeGone(w.Admin.Status().Patch(w.ctx, p, client.MergeFrom(before)))
}
