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
)

// collectEvery is how often leftover tokens are looked for.
const collectEvery = 10 * time.Minute

// Collector deletes tokens that outlived their Machine: one whose Machine is gone, was made anew under its name, or has
// joined. A Machine deletes its token itself; this is for those that were removed by hand or lost their finalizers.
type Collector struct {
	Source *Source
	Clock  clock.WithTicker
}

// NeedLeaderElection says that only the leader deletes.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start collects now and then until ctx ends, and drops what this process remembers of tokens and user data.
func (c *Collector) Start(ctx context.Context) error {
	ticker := c.Clock.NewTicker(collectEvery)
	defer ticker.Stop()
	for {
		c.Source.Tokens.sweep()
		texts.Clear()
		if n, err := c.Source.Collect(ctx); ctx.Err() == nil && (err != nil || n > 0) {
			ctrl.LoggerFrom(ctx).Info("Leftover bootstrap tokens collected", "deleted", n, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Collect looks once, and gives how many tokens it has deleted. Each Machine is read past the cache: that a cache does
// not show it is no proof.
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
			s.Tokens.forget(types.UID(token.Labels[v1alpha1.LabelTokenMachine]))
			deleted++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("collecting bootstrap token %s: %w", token.Name, err))
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
