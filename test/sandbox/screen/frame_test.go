package screen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sandbox"
)

var state = sandbox.State{
	PodsPending: 2, PodsRunning: 3, Target: 5, Groups: 1, Nodes: 4, NodesReady: 3, Servers: 5, Calls: 1,
	Machines: map[v1alpha1.MachinePhase]int{v1alpha1.PhaseRunning: 3, v1alpha1.PhaseProvisioning: 2},
}

func TestTheDemosTerminalOutputShowsEachStageWithItsDurationAndNumberOfCalls(t *testing.T) {
	f := Frame{
		Title: "drover demo",
		Stages: []StageView{
			{Name: "first", Started: true, Done: true, Took: 1500 * time.Millisecond, Calls: 12, Note: "3.0 s"},
			{Name: "second", Started: true, Took: 20 * time.Second},
			{Name: "third", Started: true, Err: errors.New("no")},
			{Name: "fourth"},
		},
		State: state, Footer: []string{"KUBECONFIG=/k"},
	}
	want := `drover demo

 ✓ first                                                   1.5 s   12 calls  3.0 s
 ▸ second                                                 20.0 s    0 calls
 ✗ third                                                   0.0 s    0 calls
   fourth

   pods         2 pending, 3 running
   target size  5 in 1 node group
   machines     2 Provisioning, 3 Running
   nodes        3 ready of 4
   cloud        5 servers, 1 OpenStack call

KUBECONFIG=/k`
	if got := strings.Join(f.Lines(0), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLinesOfTheDemosOutputAreCutToTheWidthOfTheTerminal(t *testing.T) {
	for _, line := range (Frame{Title: strings.Repeat("é", 50), State: state}).Lines(20) {
		if n := len([]rune(line)); n > 20 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestANewFrameOfTheDemosOutputReplacesThePreviousFrameInTheTerminal(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{out: &out, live: true, size: func() int { return 0 }}
	s.Show(Frame{Title: "a", State: state})
	up := fmt.Sprintf("\x1b[%dA\x1b[J", strings.Count(out.String(), "\n"))
	out.Reset()
	s.Show(Frame{Title: "b", State: state})
	if want := up + "b\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("got %q, want it to begin with %q", out.String(), want)
	}
	out.Reset()
	s.Say("built")
	s.Say("again")
	if got := out.String(); !strings.HasSuffix(got, "built\nagain\n") || strings.Count(got, "\x1b[J") != 1 {
		t.Errorf("lines of progress take the table away once and stay: got %q", got)
	}
}

func TestTheDemoWithoutATerminalPrintsEachChangedStateAsOnePlainLine(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{out: &out}
	s.Show(Frame{State: state})
	s.Show(Frame{State: state})
	want := "  pods 2 pending 3 running | target 5 | machines 2 Provisioning, 3 Running | nodes 3/4 ready | 1 call\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheDemoCallsTheCallbackForAClosedOutputWhenAWriteToThePipeFails(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	gone := 0
	s := New(writer, func() { gone++ })
	s.Say("heard")
	if err := reader.Close(); err != nil || gone != 0 {
		t.Fatalf("%v; told %d times that nobody reads, while somebody did", err, gone)
	}
	s.Say("unheard")
	if gone != 1 {
		t.Errorf("told %d times that nobody reads, want once", gone)
	}
}
