package autoscaler

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stepPods is the model of the ReplicaSet controller, the scheduler, the kubelets and the pod garbage collector.
func (w *world) stepPods(nodes []corev1.Node, pods []corev1.Pod) {
	alive := map[string]bool{}
	bins := map[string]*bin{}
	for i := range nodes {
		n := &nodes[i]
		alive[n.Name] = true
		var on []*corev1.Pod
		for j := range pods {
			if pods[j].Spec.NodeName == n.Name {
				on = append(on, &pods[j])
			}
		}
		// All nodes are candidates, because the scheduler considers taints and not the condition Ready.
		bins[n.Name] = newBin(n, on)
	}
	w.count(pods)
	for i := range pods {
		p := &pods[i]
		switch {
		case p.DeletionTimestamp != nil, p.Spec.NodeName != "" && !alive[p.Spec.NodeName]:
			w.mustExist(w.admin.Delete(w.ctx, p, client.GracePeriodSeconds(0)))
		case p.Spec.NodeName == "":
			w.place(p, othersThan(bins, ""))
		case p.Status.Phase != corev1.PodRunning:
			w.podStatus(p, func() { p.Status.Phase = corev1.PodRunning })
		}
	}
}

// count keeps the number of pods of each pool as its ReplicaSet would: it creates missing pods and deletes excess pods.
func (w *world) count(pods []corev1.Pod) {
	for _, p := range w.pools {
		var have []*corev1.Pod
		for i := range pods {
			if pods[i].Labels[labelPool] == p.name && pods[i].DeletionTimestamp == nil {
				have = append(have, &pods[i])
			}
		}
		for range p.pods - len(have) {
			w.must(w.admin.Create(w.ctx, w.newPod(p)))
		}
		// Pending pods are deleted first, then the newest.
		slices.SortFunc(have, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(len(b.Spec.NodeName), len(a.Spec.NodeName)), cmp.Compare(a.Name, b.Name))
		})
		for _, pod := range have[min(len(have), p.pods):] {
			w.mustExist(w.admin.Delete(w.ctx, pod, client.GracePeriodSeconds(0)))
			pod.DeletionTimestamp = ptr.To(metav1.Now())
		}
	}
}

func (w *world) newPod(p *pool) *corev1.Pod {
	w.serial++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%06d", p.name, w.serial), Namespace: metav1.NamespaceDefault, Labels: map[string]string{labelPool: p.name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.name, UID: p.owner.UID, Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers: []corev1.Container{{
				Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}},
			}},
		},
	}
	if !p.flexible {
		pod.Spec.NodeSelector = map[string]string{labelPool: p.name}
	}
	return pod
}

// place does what the scheduler does with a pending pod: it binds the pod to a node with room, or marks the pod as unschedulable.
func (w *world) place(p *corev1.Pod, bins []*bin) {
	for _, b := range bins {
		if b.takes(p) {
			b.place(p)
			before := p.DeepCopy()
			p.Spec.NodeName = b.node.Name
			w.mustExist(w.admin.Patch(w.ctx, p, client.MergeFrom(before)))
			return
		}
	}
	if isUnschedulable(p) {
		return
	}
	w.podStatus(p, func() {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(),
		}}
	})
}

func (w *world) podStatus(p *corev1.Pod, how func()) {
	before := p.DeepCopy()
	how()
	w.mustExist(w.admin.Status().Patch(w.ctx, p, client.MergeFrom(before)))
}
