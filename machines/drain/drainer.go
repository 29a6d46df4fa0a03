package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// Leaving holds the names of the pods that are leaving the node, in order: those that are ending within their grace period, and those
	// that are evicted after them.
	Leaving []string
	// Blocked holds the pods that cannot be evicted now, with the API server's reasons.
	Blocked []Blocked
	// Staying holds the other pods that do not leave the node: those that do not end, and those that would only come again.
	Staying []Blocked
	// Detaching holds the volumes that no pod uses any more and that are still attached.
	Detaching []string
}

// Left returns the pods that a drain which is done leaves on the node, with the reasons.
func (r *Result) Left() []Blocked { return slices.Concat(r.Blocked, r.Staying) }

// Blocked is a pod that cannot leave the node now.
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
	s := &State{Pods: pods, Mode: o.Mode, Answers: map[types.UID]Answer{}}
	var unused []string
	if !o.Mode.Abrupt {
		if s.Volumes, unused, err = d.volumesOf(ctx, o.Node, pods, m); err != nil {
			return Result{}, err
		}
		s.Volumes.Detaching = m.detaching(unused, now, o.VolumeTimeout)
		m.watchPods(s, now)
	}
	plan, err := d.carryOut(ctx, s)
	m.remember(s, now)
	if o.Mode.Abrupt {
		// In abrupt mode the drain is done once the evictions have been requested, whatever the answers are.
		return Result{Done: true, Blocked: refusals(plan.Refused, s)}, nil
	}
	if plan.Done && m.doubtful() {
		if unused, err = d.unseen(ctx, o.Node); err != nil {
			return Result{}, err
		}
	}
	stay := staying(plan, s, now)
	result := Result{Done: plan.Done, Leaving: leaving(plan, stay), Blocked: refusals(plan.Refused, s), Staying: stay, Detaching: s.Volumes.Detaching}
	if plan.Done {
		result.Detaching = unused
	}
	return result, err
}

// carryOut requests the evictions that are due. It plans again after each group of answers, because a refused eviction makes no other
// pod wait. The error joins the errors of the evictions that were not answered.
func (d *Drainer) carryOut(ctx context.Context, s *State) (*Plan, error) {
	var errs []error
	plan := MakePlan(s)
	for ; len(plan.Evict) > 0; plan = MakePlan(s) {
		errs = append(errs, d.evict(ctx, plan.Evict, s))
	}
	return plan, errors.Join(errs...)
}

// leaving returns the names of the pods that are ending, or that are evicted later, without those that stay.
func leaving(p *Plan, stay []Blocked) (out []string) {
	for _, pod := range slices.Concat(p.Waiting, p.Later) {
		name := nameOf(pod)
		if !slices.ContainsFunc(stay, func(b Blocked) bool { return b.Pod == name }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// refusals returns the pods whose eviction was refused, with the API server's reasons.
func refusals(pods []*corev1.Pod, s *State) (out []Blocked) {
	for _, pod := range pods {
		out = append(out, Blocked{Pod: nameOf(pod), Reason: s.Answers[pod.UID].Reason})
	}
	return out
}

// staying returns the pods that do not end, and those that would only come again. The pods' own deletion timestamps decide which pods are
// named, so that a new process names the same ones at once. They decide nothing else, because they come from the clock of an API server.
func staying(p *Plan, s *State, now time.Time) (out []Blocked) {
	for _, pod := range slices.Concat(p.Overdue, p.Waiting) {
		reason := "it has not ended although its grace period is over"
		if !s.Overdue[pod.UID] && (pod.DeletionTimestamp == nil || now.Sub(pod.DeletionTimestamp.Time) < overdueAfter) {
			if !s.Mode.Over {
				continue
			}
			reason = "it has not ended"
		}
		if len(pod.Finalizers) > 0 {
			reason += "; finalizers: " + strings.Join(pod.Finalizers, ", ")
		}
		if volumes := s.Volumes.Exclusive[pod.UID]; len(volumes) > 0 {
			reason += "; volumes: " + strings.Join(volumes, ", ")
		}
		out = append(out, Blocked{Pod: nameOf(pod), Reason: reason})
	}
	for _, pod := range p.Returning {
		out = append(out, Blocked{Pod: nameOf(pod), Reason: "it was created on the cordoned node, because it tolerates the taint " + deleting.Key})
	}
	return out
}

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

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

// evict requests the eviction of each pod, and adds the answers to s. At most parallel requests are under way at the same time over all
// nodes, and perNode of one node. When an eviction is not answered, evict still requests the others. The error joins the errors of the evictions that were not
// answered.
func (d *Drainer) evict(ctx context.Context, pods []*corev1.Pod, s *State) error {
	d.once.Do(func() { d.slots = make(chan struct{}, parallel) })
	answers, errs := make([]Answer, len(pods)), make([]error, len(pods))
	var all sync.WaitGroup
	var hung atomic.Bool
	own := make(chan struct{}, perNode)
	for i, pod := range pods {
		own <- struct{}{}
		d.slots <- struct{}{}
		all.Go(func() {
			defer func() { <-d.slots; <-own }()
			limit := patience
			if hung.Load() {
				limit = shortPatience
			}
			if answers[i], errs[i] = d.evictOne(ctx, pod, s.Mode, limit); answers[i].Undecided {
				hung.Store(true)
			}
		})
	}
	all.Wait()
	for i, pod := range pods {
		s.Answers[pod.UID] = answers[i]
	}
	return errors.Join(errs...)
}
