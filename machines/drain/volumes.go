package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the two indexes of VolumeAttachments that the Client of a [Drainer] must have: by node, and by persistent volume.
const (
	IndexNode   = "drover.drain.node"
	IndexVolume = "drover.drain.volume"
)

// AttachmentNode returns the value of IndexNode for a VolumeAttachment: the name of its node.
func AttachmentNode(o client.Object) string {
	if a, ok := o.(*storagev1.VolumeAttachment); ok {
		return a.Spec.NodeName
	}
	return ""
}

// AttachmentVolume returns the value of IndexVolume for a VolumeAttachment: the name of its persistent volume.
func AttachmentVolume(o client.Object) string {
	if a, ok := o.(*storagev1.VolumeAttachment); ok && a.Spec.Source.PersistentVolumeName != nil {
		return *a.Spec.Source.PersistentVolumeName
	}
	return ""
}

type boundVolume struct {
	volume string
	shared bool
}

// Attached returns the names of the persistent volumes that are attached to a node, sorted.
func (d *Drainer) Attached(ctx context.Context, node string) ([]string, error) {
	var list storagev1.VolumeAttachmentList
	if err := d.Client.List(ctx, &list, client.MatchingFields{IndexNode: node}); err != nil {
		return nil, fmt.Errorf("listing the volume attachments of node %s: %w", node, err)
	}
	var names []string
	for i := range list.Items {
		if name := AttachmentVolume(&list.Items[i]); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// volumesOf finds which attached volumes the pods use. It leaves out volumes without an attachment object (local disks, network file
// systems) and volumes that can be attached to several nodes, because a drain does not wait for those.
func (d *Drainer) volumesOf(ctx context.Context, node string, pods []corev1.Pod, m *memory) (v Volumes, unused []string, err error) {
	attached, err := d.Attached(ctx, node)
	m.shown = m.shown || len(attached) > 0
	m.volumeClaims = m.volumeClaims || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return len(volumeClaimsOf(&p)) > 0 })
	if err != nil || len(attached) == 0 {
		return v, nil, err
	}
	v.Exclusive = map[types.UID][]string{}
	used := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		for _, name := range volumeClaimsOf(pod) {
			c, err := d.boundVolume(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, m)
			if err != nil {
				return v, nil, err
			}
			used[c.volume] = true
			if !c.shared && slices.Contains(attached, c.volume) {
				v.Exclusive[pod.UID] = append(v.Exclusive[pod.UID], c.volume)
			}
		}
	}
	for _, name := range attached {
		if used[name] {
			continue
		}
		elsewhere, err := d.elsewhere(ctx, name, node)
		if err != nil {
			return v, nil, err
		}
		if !elsewhere {
			unused = append(unused, name)
		}
	}
	return v, unused, nil
}

// unseen returns, sorted, the names of the volumes that are attached to this node only. It reads the API server, because the informer
// cache may be behind.
func (d *Drainer) unseen(ctx context.Context, node string) ([]string, error) {
	var list storagev1.VolumeAttachmentList
	if err := d.Reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the volume attachments: %w", err)
	}
	nodes := map[string]map[string]bool{}
	for i := range list.Items {
		a := &list.Items[i]
		if name := AttachmentVolume(a); name != "" {
			if nodes[name] == nil {
				nodes[name] = map[string]bool{}
			}
			nodes[name][a.Spec.NodeName] = true
		}
	}
	var names []string
	for name, at := range nodes {
		if at[node] && len(at) == 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// detaching returns the unused volumes, except those that have been attached without use for longer than the timeout.
func (m *memory) detaching(unused []string, now time.Time, timeout time.Duration) (waiting []string) {
	for name := range m.unused {
		if !slices.Contains(unused, name) {
			delete(m.unused, name)
		}
	}
	for _, name := range unused {
		since, ok := m.unused[name]
		if !ok {
			since = now
			m.unused[name] = now
		}
		if now.Sub(since) < timeout {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// volumeClaimsOf returns the names of the volume claims that a pod uses, including those of its ephemeral volumes.
func volumeClaimsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// boundVolume returns the volume of a claim. It reads each claim only once. A claim that is gone or not bound has no volume.
func (d *Drainer) boundVolume(ctx context.Context, key types.NamespacedName, m *memory) (boundVolume, error) {
	if c, ok := m.volumes[key]; ok {
		return c, nil
	}
	var claim corev1.PersistentVolumeClaim
	err := d.Reader.Get(ctx, key, &claim)
	if err != nil && !apierrors.IsNotFound(err) {
		return boundVolume{}, fmt.Errorf("reading the volume claim %s: %w", key, err)
	}
	modes := claim.Status.AccessModes
	if len(modes) == 0 {
		modes = claim.Spec.AccessModes
	}
	c := boundVolume{volume: claim.Spec.VolumeName}
	c.shared = slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany)
	m.volumes[key] = c
	return c, nil
}

// elsewhere reports whether a volume is attached to another node too.
func (d *Drainer) elsewhere(ctx context.Context, volume, node string) (bool, error) {
	var list storagev1.VolumeAttachmentList
	if err := d.Client.List(ctx, &list, client.MatchingFields{IndexVolume: volume}); err != nil {
		return false, fmt.Errorf("listing the attachments of volume %s: %w", volume, err)
	}
	return slices.ContainsFunc(list.Items, func(a storagev1.VolumeAttachment) bool { return a.Spec.NodeName != node }), nil
}
