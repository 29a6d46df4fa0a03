package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/drover-project/drover/test/sandbox"
)

// plainEvery is the minimum interval between lines about a changed state when there is no terminal.
const plainEvery = 2 * time.Second

// Screen draws frames in place in a terminal, and writes lines to any other output.
type Screen struct {
	out  io.Writer
	live bool
	size func() int

	mu    sync.Mutex
	drawn int
	last  string
	when  time.Time
}

// watched is a writer that calls gone when a write fails because nobody reads the output any more.
type watched struct {
	io.Writer
	gone func()
}

func (w watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

// New returns a screen for a file. The screen is live when the file is a terminal that can move its cursor. gone is
// called when the file no longer accepts writes, such as a closed pipe.
func New(out *os.File, gone func()) *Screen {
	fd := int(out.Fd())
	s := &Screen{out: watched{out, gone}, live: term.IsTerminal(fd) && os.Getenv("TERM") != "dumb"}
	s.size = func() int {
		width, _, err := term.GetSize(fd)
		if err != nil {
			return 0
		}
		return width
	}
	return s
}

// Live reports whether the output is a terminal.
func (s *Screen) Live() bool { return s.live }

// Write prints lines of progress above the table.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	return s.out.Write(p)
}

// Say writes one line, which stays on the screen.
func (s *Screen) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(s, format+"\n", args...)
}

// Show replaces the last frame. Without a terminal it writes a changed state as a line from time to time.
func (s *Screen) Show(f Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		s.showPlain(f.State)
		return
	}
	lines := f.Lines(s.size())
	s.erase()
	_, _ = io.WriteString(s.out, strings.Join(lines, "\n")+"\n")
	s.drawn = len(lines)
}

func (s *Screen) showPlain(state sandbox.State) {
	line := Line(state)
	if line == s.last || time.Since(s.when) < plainEvery {
		return
	}
	s.last, s.when = line, time.Now()
	_, _ = io.WriteString(s.out, "  "+line+"\n")
}

// erase removes the last frame: it moves the cursor up by the frame's lines, and clears the screen from there to its
// end.
func (s *Screen) erase() {
	if s.drawn > 0 {
		_, _ = fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}
