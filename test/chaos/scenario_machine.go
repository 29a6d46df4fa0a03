package chaos

import (
	"fmt"

	"github.com/drover-project/drover/test/chaos/schedule"
	"github.com/drover-project/drover/test/chaos/world"
)

// oneMachine makes a Machine without an owner, and deletes it when it runs.
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
		// What the late create does to the Machine's server shows when its own server has failed or booted.
		schedule.Sleep(h.Context, h.run.Scenario.holdBack+2*world.BootMargin)
		if err := h.running(1); err != nil {
			return err
		}
	}
	h.leave()
	if err := h.Admin.Delete(h.Context, m); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	made, spare := 1, 0
	if h.failed != "" {
		made++
	}
	if h.LateCreates {
		// A server whose create arrives late fails: its port is gone.
		spare = 1
	}
	return h.ended(made, spare)
}
