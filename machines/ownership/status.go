package ownership

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/memory"
)

// Statuses writes the status of owners. It limits how often, so that one write covers several changes when an owner creates or loses Machines
// one after the other.
type Statuses struct {
	Writer  Writer
	Clock   clock.PassiveClock
	written memory.Of[time.Time]
}

// Write writes a status at once.
func (s *Statuses) Write(ctx context.Context, owner client.Object, status any) error {
	err := s.Writer.ApplyStatus(ctx, owner, status)
	if err == nil {
		return nil
	}
	kind, _ := s.Writer.Client.GroupVersionKindFor(owner)
	return fmt.Errorf("writing the status of %s %s: %w", kind.Kind, client.ObjectKeyFromObject(owner), err)
}

// WriteWhenDue writes a status when it is urgent, or when the given interval (every) has passed since the last such write. Otherwise it
// returns how long the write must wait.
func (s *Statuses) WriteWhenDue(ctx context.Context, owner client.Object, status any, every time.Duration, urgent bool) (left time.Duration, err error) {
	now := s.Clock.Now()
	s.written.Do(owner, func(last *time.Time) {
		if left = every - now.Sub(*last); left <= 0 {
			*last = now
		}
	})
	if left > 0 && !urgent {
		return left, nil
	}
	return 0, s.Write(ctx, owner, status)
}

// Forget forgets an owner that is gone.
func (s *Statuses) Forget(owner types.NamespacedName) { s.written.Forget(owner) }

// ConditionsOf returns the conditions of the given types, in this order, with times in whole seconds, as the API server stores them.
func ConditionsOf(all []metav1.Condition, kinds []string) (conditions []metav1.Condition) {
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			c := *c
			c.LastTransitionTime = c.LastTransitionTime.Rfc3339Copy()
			conditions = append(conditions, c)
		}
	}
	return conditions
}
