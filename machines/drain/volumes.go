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

// Field indexes of VolumeAttachments that a [Drainer]'s client must have: by node, and by persistent volume.
const (
	IndexNode   = "drover.drain.node"
	IndexVolume = "drover.drain.volume"
)

// AttachmentNode is the key of IndexNode.
func AttachmentNode(o client.Object) string {
	if a, ok := o.(*storagev1.VolumeAttachment); ok {
		return a.Spec.NodeName
	}
	return ""
}

// AttachmentVolume is the key of IndexVolume.
func AttachmentVolume(o client.Object) string {
	if a, ok := o.(*storagev1.VolumeAttachment); ok && a.Spec.Source.PersistentVolumeName != nil {
		return *a.Spec.Source.PersistentVolumeName
	}
	return ""
}

// ledger is what is remembered of one node from pass to pass.
type ledger struct {
	// volumes are those of claims, which are bound once: the volume's name, or nothing when it can be elsewhere too.
	volumes map[types.NamespacedName]claimed
	// unused is since when a volume is attached that no pod uses.
	unused map[string]time.Time
	// claims: pods with claims were seen on the node. shown: the cache has shown a volume attached to it.
	claims, shown bool
}

// doubtful reports whether the cache may not show yet what is attached: pods have claims, and no volume was ever shown.
func (l *ledger) doubtful() bool { return l.claims && !l.shown }

type claimed struct {
	volume string
	shared bool
}

func newLedger() *ledger {
	return &ledger{volumes: map[types.NamespacedName]claimed{}, unused: map[string]time.Time{}}
}

// Attached gives the names of the persistent volumes that are attached to a node, sorted.
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

// volumesOf finds which attached volumes the pods use. What is attached without an attachment object (local disks, network
// file systems) is not waited for, nor what may be on several nodes at once.
func (d *Drainer) volumesOf(ctx context.Context, node string, pods []corev1.Pod, l *ledger) (v Volumes, unused []string, err error) {
	attached, err := d.Attached(ctx, node)
	l.shown = l.shown || len(attached) > 0
	l.claims = l.claims || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return len(claimsOf(&p)) > 0 })
	if err != nil || len(attached) == 0 {
		return v, nil, err
	}
	v.Exclusive = map[types.UID][]string{}
	used := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		for _, name := range claimsOf(pod) {
			c, err := d.claimed(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, l)
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

// unseen returns the names of the volumes that the API server shows as attached to a node and to no other, sorted.
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

// detaching leaves out those volumes that have been attached without use for the whole timeout.
func (l *ledger) detaching(unused []string, now time.Time, timeout time.Duration) (waiting []string) {
	for name := range l.unused {
		if !slices.Contains(unused, name) {
			delete(l.unused, name)
		}
	}
	for _, name := range unused {
		since, ok := l.unused[name]
		if !ok {
			since = now
			l.unused[name] = now
		}
		if now.Sub(since) < timeout {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// claimsOf are the names of the claims that a pod uses, those of its ephemeral volumes included.
func claimsOf(pod *corev1.Pod) []string {
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

// claimed reads a claim once. One that is gone or not bound holds nothing.
func (d *Drainer) claimed(ctx context.Context, key types.NamespacedName, l *ledger) (claimed, error) {
	if c, ok := l.volumes[key]; ok {
		return c, nil
	}
	var claim corev1.PersistentVolumeClaim
	err := d.Reader.Get(ctx, key, &claim)
	if err != nil && !apierrors.IsNotFound(err) {
		return claimed{}, fmt.Errorf("reading the claim %s: %w", key, err)
	}
	modes := claim.Status.AccessModes
	if len(modes) == 0 {
		modes = claim.Spec.AccessModes
	}
	c := claimed{volume: claim.Spec.VolumeName}
	c.shared = slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany)
	l.volumes[key] = c
	return c, nil
}

// elsewhere tells whether a volume is attached to another node too.
func (d *Drainer) elsewhere(ctx context.Context, volume, node string) (bool, error) {
	var list storagev1.VolumeAttachmentList
	if err := d.Client.List(ctx, &list, client.MatchingFields{IndexVolume: volume}); err != nil {
		return false, fmt.Errorf("listing the attachments of volume %s: %w", volume, err)
	}
	return slices.ContainsFunc(list.Items, func(a storagev1.VolumeAttachment) bool { return a.Spec.NodeName != node }), nil
}
