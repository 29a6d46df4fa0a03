package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// parallel limits the evictions that are under way at the same time, over all nodes.
	parallel = 32
	// pageSize is how many pods one request lists.
	pageSize = 250
)

// Drainer evicts pods. Its Reader must not be a cache, because drover does not cache the pods of the cluster. Its Client must have the
// indexes of this package.
type Drainer struct {
	Client client.Client
	Reader client.Reader

	once  sync.Once
	slots chan struct{}
}

// Order describes which node to drain, and how.
type Order struct {
	Node string
	Mode Mode
	// VolumeTimeout is how long drover waits for the volumes of an evicted pod to be detached before it evicts the next pod with volumes.
	VolumeTimeout time.Duration
}

// Result holds the state of a drain after a round.
type Result struct {
	// Done is true when the drain waits for no pod any more.
	Done bool
	// Remaining is the number of pods that still have to leave the node.
	Remaining int
	// Blocked holds the pods that cannot be evicted now, with the API server's reasons, in the order of the requests.
	Blocked []Blocked
	// Detaching holds the volumes that no pod uses any more and that are still attached.
	Detaching []string
}

// Blocked is a pod that cannot be evicted now.
type Blocked struct{ Pod, Reason string }

// Round lists the node's pods, requests the evictions that are due, and returns without waiting for any pod to end. It reads volume
// attachments from the informer cache. The watch of attachments may be late. Therefore, when no pod is left and the cache has shown no
// attachment although pods of this drain have volume claims, Round reads the attachments from the API server.
//
// Round returns an error when it cannot read the pods or volumes; the result is then empty. It also returns an error when evictions were
// not answered; the result then covers all pods, and those without an answer are in Blocked. In abrupt mode only an unreadable list of
// pods is an error.
func (d *Drainer) Round(ctx context.Context, o Order, now time.Time) (Result, error) {
	return d.round(ctx, o, newMemory(), now)
}

func (d *Drainer) round(ctx context.Context, o Order, m *memory, now time.Time) (Result, error) {
	pods, err := d.pods(ctx, o.Node)
	if err != nil {
		return Result{}, err
	}
	var volumes Volumes
	var unused []string
	if !o.Mode.Abrupt {
		if volumes, unused, err = d.volumesOf(ctx, o.Node, pods, m); err != nil {
			return Result{}, err
		}
		volumes.Detaching = m.detaching(unused, now, o.VolumeTimeout)
	}
	plan := MakePlan(pods, o.Mode, volumes)
	if plan.Done() && m.doubtful() {
		if unused, err = d.unseen(ctx, o.Node); err != nil {
			return Result{}, err
		}
	}
	if plan.Done() {
		return Result{Done: true, Detaching: unused}, nil
	}
	blocked, err := d.evict(ctx, plan.Evict, o.Mode)
	result := Result{Remaining: len(plan.Evict) + len(plan.Waiting) + len(plan.Later), Blocked: blocked, Detaching: volumes.Detaching}
	if o.Mode.Abrupt {
		// In abrupt mode the drain is done once the evictions have been requested, whatever the answers are.
		result.Done = true
		return result, nil
	}
	return result, err
}

// pods lists the pods of the node from the API server itself.
func (d *Drainer) pods(ctx context.Context, node string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	for next := ""; ; {
		var page corev1.PodList
		err := d.Reader.List(ctx, &page, client.MatchingFields{"spec.nodeName": node}, client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
		}
		pods = append(pods, page.Items...)
		if next = page.Continue; next == "" {
			return pods, nil
		}
	}
}

// evict requests the eviction of each pod. At most parallel requests are under way at the same time, over all nodes. When an eviction is
// not answered, evict still requests the others. The error joins the errors of the evictions that were not answered.
func (d *Drainer) evict(ctx context.Context, pods []*corev1.Pod, mode Mode) ([]Blocked, error) {
	d.once.Do(func() { d.slots = make(chan struct{}, parallel) })
	answers, errs := make([]string, len(pods)), make([]error, len(pods))
	var all sync.WaitGroup
	for i, pod := range pods {
		d.slots <- struct{}{}
		all.Go(func() {
			defer func() { <-d.slots }()
			answers[i], errs[i] = d.evictOne(ctx, pod, mode)
		})
	}
	all.Wait()
	var blocked []Blocked
	for i, reason := range answers {
		if reason != "" {
			blocked = append(blocked, Blocked{Pod: pods[i].Namespace + "/" + pods[i].Name, Reason: reason})
		}
	}
	return blocked, errors.Join(errs...)
}
