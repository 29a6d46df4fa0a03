package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
	"github.com/drover-project/drover/test/sandbox/screen"
)

// drawEvery is how often the table is redrawn.
const drawEvery = 250 * time.Millisecond

// show holds what the table shows: the sandbox and the stages of the scenario.
type show struct {
	sandbox *sandbox.Sandbox
	out     *screen.Screen
	began   time.Time

	mu     sync.Mutex
	stages []screen.StageView
	start  time.Time
	calls  int
}

func newShow(s *sandbox.Sandbox, out *screen.Screen) *show {
	v := &show{sandbox: s, out: out, began: time.Now()}
	for _, stage := range scenario.Stages() {
		v.stages = append(v.stages, screen.StageView{Name: stage.Name})
	}
	return v
}

func (v *show) stage(name string) *screen.StageView {
	i := slices.IndexFunc(v.stages, func(s screen.StageView) bool { return s.Name == name })
	return &v.stages[i]
}

func (v *show) stageBegan(s scenario.Stage) {
	v.mu.Lock()
	v.stage(s.Name).Started = true
	v.start, v.calls = time.Now(), v.sandbox.Cloud.CallCount()
	v.mu.Unlock()
	if !v.out.Live() {
		v.out.Say("▸ %s", s.Name)
	}
}

func (v *show) stageEnded(r scenario.Result) {
	v.mu.Lock()
	s := v.stage(r.Stage.Name)
	s.Done, s.Err, s.Took, s.Calls, s.Note = r.Err == nil, r.Err, r.Took, r.Calls, r.Note
	v.mu.Unlock()
	if v.out.Live() {
		return
	}
	mark := "✓"
	if r.Err != nil {
		mark = "✗"
	}
	v.out.Say("%s %s: %.1f s, %d calls%s", mark, r.Stage.Name, r.Took.Seconds(), r.Calls, after(", ", r.Note))
}

func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// draw shows the state of the sandbox, and redraws it every drawEvery until ctx ends.
func (v *show) draw(ctx context.Context) {
	ticker := time.NewTicker(drawEvery)
	defer ticker.Stop()
	for {
		if state, err := v.sandbox.State(ctx); err == nil {
			v.out.Show(v.frame(state))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (v *show) frame(state sandbox.State) screen.Frame {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := screen.Frame{
		Title:  fmt.Sprintf("drover demo, %.0f s; scaled by %s", time.Since(v.began).Seconds(), v.sandbox.AutoscalerName()),
		Stages: slices.Clone(v.stages), State: state,
		Footer: []string{"   KUBECONFIG=" + v.sandbox.Cluster.Kubeconfig},
	}
	for i := range f.Stages {
		if s := &f.Stages[i]; s.Started && !s.Done && s.Err == nil {
			s.Took, s.Calls = time.Since(v.start), state.Calls-v.calls
		}
	}
	return f
}

// background shows the state of the sandbox until the returned function is called.
func (v *show) background(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { v.draw(ctx) })
	return func() {
		cancel()
		work.Wait()
	}
}

// demo runs the scenario of the demo. In a terminal it then keeps the sandbox running until Ctrl-C.
func demo(ctx context.Context, s *sandbox.Sandbox, out *screen.Screen) error {
	d, err := scenario.NewDemo(s)
	if err != nil {
		return err
	}
	v := newShow(s, out)
	end := v.background(ctx)
	err = scenario.Run(ctx, d, v.stageBegan, v.stageEnded)
	if err != nil {
		end()
		if ctx.Err() == nil {
			v.logs()
		}
		return err
	}
	v.summary()
	if !out.Live() {
		end()
		return nil
	}
	out.Say("Every stage passed. Look around with KUBECONFIG=%s; Ctrl-C ends it all.", s.Cluster.Kubeconfig)
	end()
	return stay(ctx, v)
}

// up keeps the sandbox running until Ctrl-C.
func up(ctx context.Context, s *sandbox.Sandbox, out *screen.Screen) error {
	out.Say("Everything runs, scaled by %s. Ctrl-C ends it all.", s.AutoscalerName())
	out.Say("KUBECONFIG=%s", s.Cluster.Kubeconfig)
	for _, variable := range s.Cloud.Environment() {
		out.Say("%s", variable)
	}
	return stay(ctx, &show{sandbox: s, out: out, began: time.Now()})
}

// stay shows the state of the sandbox until the user ends the sandbox, or until a part of it has failed.
func stay(ctx context.Context, v *show) error {
	end := v.background(ctx)
	defer end()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := v.sandbox.Err(); err != nil {
				return err
			}
		}
	}
}

// logs prints the last lines of the logs that may explain why a stage failed, because the log files are deleted with
// the sandbox.
func (v *show) logs() { sayLogs(v.sandbox, v.out) }

func sayLogs(s *sandbox.Sandbox, out *screen.Screen) {
	for _, name := range []string{"drover", "autoscaler"} {
		out.Say("\n%s's last lines:\n%s", name, sandbox.Tail(s.LogFile(name)))
	}
}

// summary prints the time per stage, the calls, and what is left in the cloud.
func (v *show) summary() {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines []string
	total := time.Duration(0)
	for _, s := range v.stages {
		total += s.Took
		lines = append(lines, fmt.Sprintf("  %-52s %6.1f s %5d calls", s.Name, s.Took.Seconds(), s.Calls))
	}
	v.out.Say("\n%s\n  %-52s %6.1f s %5d calls", strings.Join(lines, "\n"), "in all", total.Seconds(), v.sandbox.Cloud.CallCount())
	for name, n := range v.sandbox.Cloud.CallsByName() {
		lines = append(lines, fmt.Sprintf("  %5d %s", n, name))
	}
	calls := lines[len(v.stages):]
	slices.Sort(calls)
	slices.Reverse(calls)
	left := v.sandbox.Cloud.Leftovers()
	v.out.Say("OpenStack calls:\n%s", strings.Join(calls, "\n"))
	v.out.Say("Left in the cloud: %d servers, %d ports, %d floating IPs, %d volumes: those of the living nodes.",
		len(left.Servers), len(left.Ports), len(left.FloatingIPs), len(left.Volumes))
	v.out.Say("Kubeconfig: %s", v.sandbox.Cluster.Kubeconfig)
}
