// Package screen shows a running demo: as a live table in a terminal, and as plain lines elsewhere.
package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
)

// StageView is one line of the list of stages.
type StageView struct {
	Name    string
	Started bool
	Done    bool
	Err     error
	// Took is the stage's time so far, or its total time when it has ended.
	Took  time.Duration
	Calls int
	// Note is what the stage measured.
	Note string
}

// Frame is the content of the screen at one moment of the demo.
type Frame struct {
	Title  string
	Stages []StageView
	State  sandbox.State
	// Footer holds text that a user may want to copy.
	Footer []string
}

// phases are the phases in the order in which a Machine passes through them.
var phases = []v1alpha1.MachinePhase{
	v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseJoined, v1alpha1.PhaseRunning, v1alpha1.PhaseDeleting, v1alpha1.PhaseFailed,
}

// Lines draws the frame for a terminal of that width. 0 means an unlimited width.
func (f Frame) Lines(width int) []string {
	out := []string{f.Title, ""}
	for _, s := range f.Stages {
		out = append(out, s.line())
	}
	out = append(out, "")
	out = append(out, stateTable(f.State)...)
	if len(f.Footer) > 0 {
		out = append(append(out, ""), f.Footer...)
	}
	for i := range out {
		out[i] = cut(out[i], width)
	}
	return out
}

func (s StageView) line() string {
	mark, took, calls := " ", "", ""
	switch {
	case s.Err != nil:
		mark = "✗"
	case s.Done:
		mark = "✓"
	case s.Started:
		mark = "▸"
	}
	if s.Started {
		took, calls = fmt.Sprintf("%5.1f s", s.Took.Seconds()), fmt.Sprintf("%4d calls", s.Calls)
	}
	return strings.TrimRight(fmt.Sprintf(" %s %-52s %8s %10s  %s", mark, s.Name, took, calls, s.Note), " ")
}

func stateTable(s sandbox.State) []string {
	rows := [][2]string{
		{"pods", fmt.Sprintf("%d pending, %d running", s.PodsPending, s.PodsRunning)},
		{"target size", fmt.Sprintf("%d in %s", s.Target, plural(s.Groups, "node group"))},
		{"machines", machineCounts(s)},
		{"nodes", fmt.Sprintf("%d ready of %d", s.NodesReady, s.Nodes)},
		{"cloud", fmt.Sprintf("%s, %s", plural(s.Servers, "server"), plural(s.Calls, "OpenStack call"))},
	}
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("   %-12s %s", r[0], r[1]))
	}
	return out
}

func machineCounts(s sandbox.State) string {
	var parts []string
	for _, phase := range phases {
		if n := s.Machines[phase]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, phase))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Line returns the state as one plain line.
func Line(s sandbox.State) string {
	return fmt.Sprintf("pods %d pending %d running | target %d | machines %s | nodes %d/%d ready | %s",
		s.PodsPending, s.PodsRunning, s.Target, machineCounts(s), s.NodesReady, s.Nodes, plural(s.Calls, "call"))
}

func plural(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// cut shortens a line to what fits into one row of a terminal.
func cut(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:max(0, width-1)]) + "…"
}
