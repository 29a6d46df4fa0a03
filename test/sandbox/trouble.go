package sandbox

import (
	"context"
	"fmt"
)

// KillDrover ends the nth drover, counted from 0, as a crash does.
func (s *Sandbox) KillDrover(n int) {
	s.mu.Lock()
	r := s.replicas[n]
	p := r.process
	r.process = nil
	s.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// ReviveDrover starts the nth drover anew, and returns once it is ready.
func (s *Sandbox) ReviveDrover(ctx context.Context, n int) error {
	return s.startReplica(ctx, s.replicas[n])
}

// FailOver lets the autoscaler come to the nth drover from now on; its connections to another are cut.
func (s *Sandbox) FailOver(n int) error {
	if s.front == nil {
		return fmt.Errorf("failing over: there is one drover alone")
	}
	s.front.lead(s.replicas[n].grpc)
	return nil
}

// RestartAutoscaler ends the autoscaler as a crash does, and starts it anew: it has forgotten everything.
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
