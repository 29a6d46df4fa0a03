package chaos

import (
	"fmt"
	"net/http"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// serverShutDown shuts down the server of a running Machine outside of drover, and waits until drover has started the server
// again or has given up. If drover has given up, the scenario starts the server. Then it deletes the Machine.
func (h *harness) serverShutDown() error {
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
	server := h.Ours().Servers[0]
	h.Cloud.StopServer(server)
	if err := h.until("the server is started or given up", func() (bool, error) { return h.startEnded(server) }); err != nil {
		return err
	}
	if err := h.checkStarts(); err != nil {
		return err
	}
	h.Cloud.ChangeServer(server, "active", "")
	if err := h.running(1); err != nil {
		return err
	}
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, m); err != nil {
		return fmt.Errorf("deleting the Machine: %w", err)
	}
	return h.ended(1, 0)
}

// startEnded reports whether the server runs, or the Machine's status says that it cannot be started.
func (h *harness) startEnded(server string) (bool, error) {
	s, _ := h.Cloud.Server(server)
	machines, err := h.Machines()
	if err != nil || s.Status == "ACTIVE" {
		return err == nil, err
	}
	for _, m := range machines {
		for _, c := range m.Status.Conditions {
			if c.Type == v1alpha1.ConditionServerReady && c.Reason == "ServerWontStart" {
				return true, nil
			}
		}
	}
	return false, nil
}

// checkStarts returns an error when the cloud has started the server more than once, or when drover requested the start
// twice although no call failed.
func (h *harness) checkStarts() error {
	starts := 0
	for _, call := range h.Cloud.Calls() {
		if call.Name() == "POST /servers/{id}/action" && (call.Status == http.StatusAccepted || h.run.Failing == nil) {
			starts++
		}
	}
	if starts > 1 {
		return fmt.Errorf("the cloud was asked %d times to start the server", starts)
	}
	return nil
}
