package sandbox

import (
	"context"
	"fmt"
	"syscall"
)

// KillDrover kills the nth drover without warning, as a crash does. The first drover has the number 0.
func (s *Sandbox) KillDrover(n int) { s.endDrover(n, (*process).kill) }

// StopDrover stops the nth drover as the removal of its pod does: drover receives SIGTERM and releases the lease.
func (s *Sandbox) StopDrover(n int) { s.endDrover(n, (*process).stop) }

func (s *Sandbox) endDrover(n int, end func(*process)) {
	s.mu.Lock()
	r := s.replicas[n]
	p := r.process
	r.process = nil
	s.mu.Unlock()
	if p != nil {
		end(p)
	}
}

// PauseDrover stops the process of the nth drover with SIGSTOP, until [Sandbox.ResumeDrover] lets it go on.
func (s *Sandbox) PauseDrover(n int) error {
	return s.replicaProcess(n).cmd.Process.Signal(syscall.SIGSTOP)
}

// ResumeDrover reverses PauseDrover.
func (s *Sandbox) ResumeDrover(n int) error {
	return s.replicaProcess(n).cmd.Process.Signal(syscall.SIGCONT)
}

// DroverEnded reports whether the nth drover has ended although nobody ended it.
func (s *Sandbox) DroverEnded(n int) bool { return s.replicaProcess(n).failure() != nil }

// DroverMetrics returns the address at which the nth drover serves its metrics.
func (s *Sandbox) DroverMetrics(n int) string { return s.replicas[n].metrics }

func (s *Sandbox) replicaProcess(n int) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas[n].process
}

// ReviveDrover starts the nth drover again, with a new token of its service account, and returns when it is ready.
func (s *Sandbox) ReviveDrover(ctx context.Context, n int) error {
	if err := s.writeKubeconfigs(ctx); err != nil {
		return err
	}
	return s.startReplica(ctx, s.replicas[n])
}

// FailOver makes the autoscaler connect to the nth drover from now on, and cuts its connections to the others.
func (s *Sandbox) FailOver(n int) error {
	if s.front == nil {
		return fmt.Errorf("failing over: there is one drover alone")
	}
	s.front.lead(s.replicas[n].grpc)
	return nil
}

// KillCloudController stops the simulated cloud-controller-manager and returns once it has stopped. From then on new Nodes
// keep the taint uninitialized. A second call does nothing.
func (s *Sandbox) KillCloudController() {
	s.mu.Lock()
	end := s.cloudController
	s.cloudController = nil
	s.mu.Unlock()
	if end != nil {
		end()
	}
}

// ReviveCloudController starts the simulated cloud-controller-manager again. It does nothing if the simulated
// cloud-controller-manager already runs.
func (s *Sandbox) ReviveCloudController() {
	s.mu.Lock()
	runs := s.cloudController != nil
	s.mu.Unlock()
	if !runs {
		s.startCloudController()
	}
}

// RestartAutoscaler kills the autoscaler and starts a new one without the old one's memory.
func (s *Sandbox) RestartAutoscaler() error {
	s.mu.Lock()
	p, end := s.scaler, s.standIn
	s.scaler, s.standIn = nil, nil
	s.mu.Unlock()
	if p != nil {
		p.kill()
	}
	if end != nil {
		end()
	}
	return s.startAutoscaler()
}

// CutOff cuts servers off from the API server: their kubelets write nothing, so that the control plane marks their Nodes
// unreachable after its grace period (50 s).
func (s *Sandbox) CutOff(serverIDs ...string) { s.machines.set(s.machines.cut, true, serverIDs) }

// FailKubelets makes the kubelets of servers report that their nodes are not Ready, from the next heartbeat on. They go on reporting.
func (s *Sandbox) FailKubelets(serverIDs ...string) {
	s.machines.set(s.machines.failing, true, serverIDs)
}

// MendKubelets reverses FailKubelets.
func (s *Sandbox) MendKubelets(serverIDs ...string) {
	s.machines.set(s.machines.failing, false, serverIDs)
}

// RestartKubelets restarts the kubelet of each server. Each kubelet then registers its Node again, within a heartbeat.
func (s *Sandbox) RestartKubelets() { s.machines.restart() }

// Reconnect reverses CutOff: the servers reach the API server again, and their kubelets continue as before.
func (s *Sandbox) Reconnect(serverIDs ...string) { s.machines.set(s.machines.cut, false, serverIDs) }
