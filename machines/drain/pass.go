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
	// parallel is how many evictions are asked for at a time, over all nodes.
	parallel = 32
	// pageSize is how many pods are listed at a time.
	pageSize = 250
)

// Drainer evicts pods. Its reader must not be a cache: pods are not kept cluster-wide. Its client must have the indexes
// of this package.
type Drainer struct {
	Client client.Client
	Reader client.Reader

	once  sync.Once
	slots chan struct{}
}

// Order says what is to be drained, and how.
type Order struct {
	Node string
	Mode Mode
	// VolumeTimeout is how long the volumes of a pod that has gone may take to be detached before the next such pod goes.
	VolumeTimeout time.Duration
}

// Result is what a pass found.
type Result struct {
	// Done: no pod is left to wait for.
	Done bool
	// Remaining is how many pods still have to go.
	Remaining int
	// Blocked holds each pod that may not go now and the API server's words, in the order in which they were asked.
	Blocked []Blocked
	// Detaching are volumes that nobody uses any more and that are still attached.
	Detaching []string
}

// Blocked is a pod that may not be evicted now.
type Blocked struct{ Pod, Reason string }

// Pass lists the node's pods, asks for the evictions that are due, and returns without waiting for any pod to end. Volume
// attachments are read from the cache, and once no pod is left from the API server if the cache has shown none although pods of
// this drain have claims: its watch may be late.
//
// Errors: the pods or volumes cannot be read (the result is empty), or evictions got no answer (the result is that of all
// pods; those without an answer are among the blocked ones). In abrupt mode only pods that cannot be listed are an error.
func (d *Drainer) Pass(ctx context.Context, o Order, now time.Time) (Result, error) {
	return d.pass(ctx, o, newLedger(), now)
}

func (d *Drainer) pass(ctx context.Context, o Order, l *ledger, now time.Time) (Result, error) {
	pods, err := d.pods(ctx, o.Node)
	if err != nil {
		return Result{}, err
	}
	var volumes Volumes
	var unused []string
	if !o.Mode.Abrupt {
		if volumes, unused, err = d.volumesOf(ctx, o.Node, pods, l); err != nil {
			return Result{}, err
		}
		volumes.Detaching = l.detaching(unused, now, o.VolumeTimeout)
	}
	plan := MakePlan(pods, o.Mode, volumes)
	if plan.Done() && l.doubtful() {
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
		// In abrupt mode the drain is done once the evictions were requested, whatever became of each.
		result.Done = true
		return result, nil
	}
	return result, err
}

// pods lists what is on the node, from the API server itself.
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

// evict asks for the eviction of each pod, a bounded number at a time over all nodes. Its error joins those of the evictions
// that got no answer; the other pods are asked all the same.
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
