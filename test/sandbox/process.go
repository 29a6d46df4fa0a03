package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a program may take to end after SIGTERM.
	stopGrace = 10 * time.Second
	// tailLines is how many lines of a program's log are added to an error.
	tailLines = 15
)

// process is one running program, with its output in a log file.
type process struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{}
	err       error
}

// startProcess runs a program with exactly the given environment.
func startProcess(name, log string, env []string, path string, args ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env, p.cmd.SysProcAttr = file, file, env, apart()
	started := make(chan error)
	go func() {
		// The kernel kills a child when the thread that started it ends, so this goroutine keeps
		// the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = file.Close() }()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// failure returns why the program has ended, with the last lines of its log, or nil while it runs.
func (p *process) failure() error {
	select {
	case <-p.ended:
		reason := "exit status 0"
		if p.err != nil {
			reason = p.err.Error()
		}
		return fmt.Errorf("%s ended (%s); its last lines:\n%s", p.name, reason, p.tail())
	default:
		return nil
	}
}

// stop sends SIGTERM to the program, and kills the program if it does not end.
func (p *process) stop() {
	select {
	case <-p.ended:
		return
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopGrace):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

// kill ends the program immediately.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

func (p *process) tail() []byte { return Tail(p.log) }

// Tail returns the last lines of a log file, or the error if it cannot be read.
func Tail(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Appendf(nil, "reading the log: %v", err)
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n"))
}
