package drain

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// parallel is how many evictions one pass asks for at a time.
const parallel = 8

// Drainer evicts pods. Its reader must not be a cache: pods are not kept cluster-wide.
type Drainer struct {
	Client client.Client
	Reader client.Reader
}

// Result is what a pass found.
type Result struct {
	// Done: nothing is left to wait for.
	Done bool
	// Remaining is how many pods still have to go.
	Remaining int
	// Blocked says, for each pod that may not go now, why: in the API server's words, by name of the pod.
	Blocked []Blocked
}

// Blocked is a pod that may not be evicted now.
type Blocked struct{ Pod, Reason string }

// Pass lists the node's pods, asks for the evictions that are due, and returns without waiting for any pod to end.
func (d *Drainer) Pass(ctx context.Context, node string, mode Mode) (Result, error) {
	var pods corev1.PodList
	if err := d.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return Result{}, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	plan := MakePlan(pods.Items, mode)
	if plan.Done() {
		return Result{Done: true}, nil
	}
	blocked, err := d.evict(ctx, plan.Evict, mode)
	if err != nil {
		return Result{}, err
	}
	// Nobody will end the pods of an unreachable node, and no budget keeps them alive: that they were asked to go is all.
	return Result{Done: mode.Unreachable, Remaining: len(plan.Evict) + len(plan.Waiting) + len(plan.Later), Blocked: blocked}, nil
}

func (d *Drainer) evict(ctx context.Context, pods []*corev1.Pod, mode Mode) ([]Blocked, error) {
	answers, errs := make([]string, len(pods)), make([]error, len(pods))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, pod := range pods {
		group.Go(func() error {
			answers[i], errs[i] = d.evictOne(ctx, pod, mode)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var blocked []Blocked
	for i, reason := range answers {
		if reason != "" {
			blocked = append(blocked, Blocked{Pod: pods[i].Namespace + "/" + pods[i].Name, Reason: reason})
		}
	}
	return blocked, errors.Join(errs...)
}

// evictOne asks for one eviction. The UID keeps it from hitting a pod of the same name that has come meanwhile. It
// returns why the pod may not go now, if so.
func (d *Drainer) evictOne(ctx context.Context, pod *corev1.Pod, mode Mode) (string, error) {
	options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if mode.Unreachable {
		options.GracePeriodSeconds = ptr.To(int64(1))
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: options,
	}
	err := d.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Gone, or another pod bears the name now: either way this one is no longer here.
		return "", nil
	case apierrors.IsTooManyRequests(err):
		return reasonOf(err), nil
	}
	return "", fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// reasonOf gives the budget's own words, which stand in the causes of the answer.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	reason := status.Status().Message
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				reason = cause.Message
			}
		}
	}
	return reason
}
