package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/periodic"
)

// collectEvery is the interval between two searches for bootstrap tokens that are no longer needed.
const collectEvery = 10 * time.Minute

// Collector deletes bootstrap tokens that are no longer needed: the token's Machine is gone, was deleted and created again under its
// name, or has joined. A Machine deletes its own token; the Collector handles Machines that were removed by hand or lost their
// finalizers.
type Collector struct {
	Source *Source
	Clock  clock.WithTicker
}

// NeedLeaderElection returns true, because only the leader deletes tokens.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start calls Collect at intervals until ctx ends.
func (c *Collector) Start(ctx context.Context) error {
	periodic.Every(ctx, c.Clock, collectEvery, func(ctx context.Context) {
		if n, err := c.Source.Collect(ctx); ctx.Err() == nil && (err != nil || n > 0) {
			ctrl.LoggerFrom(ctx).Info("Deleted leftover bootstrap tokens", "deleted", n, "error", err)
		}
	})
	return nil
}

// Collect deletes the tokens that are no longer needed, and returns their number. It reads each Machine from the API server, because a
// Machine that a cache does not show may exist.
func (s *Source) Collect(ctx context.Context) (int, error) {
	var list corev1.SecretList
	err := s.Tokens.Reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelTokenMachine})
	if err != nil {
		return 0, fmt.Errorf("listing bootstrap tokens: %w", err)
	}
	var errs []error
	deleted := 0
	for i := range list.Items {
		token := &list.Items[i]
		left, err := s.leftOver(ctx, token)
		if err == nil && left {
			err = client.IgnoreNotFound(s.Tokens.Client.Delete(ctx, token, client.Preconditions{UID: &token.UID}))
			s.Tokens.known.Remove(types.UID(token.Labels[v1alpha1.LabelTokenMachine]))
			deleted++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting leftover bootstrap token %s: %w", token.Name, err))
		}
	}
	return deleted, errors.Join(errs...)
}

func (s *Source) leftOver(ctx context.Context, token *corev1.Secret) (bool, error) {
	var m v1alpha1.Machine
	err := s.options.Control.GetAPIReader().Get(ctx, machineOf(token), &m)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return m.UID != types.UID(token.Labels[v1alpha1.LabelTokenMachine]) || m.Status.NodeRef != nil, nil
}
