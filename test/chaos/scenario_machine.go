package chaos

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/chaos/schedule"
	"github.com/drover-project/drover/test/chaos/world"
)

// deletedAtOnce deletes a Machine as soon as its Node has registered, perhaps before drover has seen the Node.
func (h *harness) deletedAtOnce() error {
	m, err := h.NewMachine()
	if err != nil {
		return err
	}
	if err := h.Admin.Create(h.Context, m); err != nil {
		return fmt.Errorf("creating the Machine: %w", err)
	}
	if err := h.until("the Node has registered", func() (bool, error) {
		err := h.Admin.Get(h.Context, types.NamespacedName{Name: m.Name}, &corev1.Node{})
		return err == nil, client.IgnoreNotFound(err)
	}); err != nil {
		return err
	}
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, m); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	return h.ended(1, 0)
}

// oneMachine creates a Machine without an owner, and deletes it when it runs.
func (h *harness) oneMachine() error {
	m, err := h.NewMachine()
	if err != nil {
		return err
	}
	if err := h.Admin.Create(h.Context, m); err != nil {
		return fmt.Errorf("creating the Machine: %w", err)
	}
	if err := h.running(1); err != nil {
		return err
	}
	if h.heldBack {
		// Wait until the late create call has arrived and the Machine's server has booted or failed.
		schedule.Sleep(h.Context, h.run.Scenario.holdBack+2*world.BootMargin)
		if err := h.running(1); err != nil {
			return err
		}
	}
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, m); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	made, spare := 1, 0
	if h.failed != "" {
		made++
	}
	if h.LateCreates {
		// A late create call may create one more server. That server fails, because its port was deleted.
		spare = 1
	}
	return h.ended(made, spare)
}
