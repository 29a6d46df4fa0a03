package kube

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	// tailLines is how many lines of a component's log an error contains.
	tailLines = 15
	// stopGrace is how long components may take to end after SIGTERM.
	stopGrace = 2 * time.Second
	// gcPercent is the GOGC of the components when the environment does not set it. Most clusters live only for seconds, and a
	// quarter of the processor time of a start would be garbage collection.
	gcPercent = "400"
)

// process is one running component.
type process struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{} // closed when the process has ended; err is set before
	err       error
}

// startProcess runs a program with its output in a log file.
func startProcess(program, log string, args []string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", filepath.Base(program), err)
	}
	p := &process{name: filepath.Base(program), log: log, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = ownGroup()
	if os.Getenv("GOGC") == "" {
		p.cmd.Env = append(os.Environ(), "GOGC="+gcPercent)
	}
	started := make(chan error)
	go func() {
		// The kernel ends a child when the *thread* that started it ends. Therefore this goroutine
		// keeps the thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
		_ = file.Close()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return p, nil
}

// alive returns nil while the process runs. Otherwise it returns why the process has ended, with
// the last lines of its log.
func (p *process) alive() error {
	select {
	case <-p.ended:
		tail := p.tail()
		if port, taken := takenPort(tail); taken {
			return &portTakenError{component: p.name, address: port}
		}
		return fmt.Errorf("%s ended (%s); its last lines:\n%s", p.name, exitReason(p.err), tail)
	default:
		return nil
	}
}

func exitReason(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// ask sends SIGTERM to the whole process group.
func (p *process) ask() { p.signal(syscall.SIGTERM) }

// endBy returns when the process has ended. If the process still runs at the given time, endBy kills its process group.
func (p *process) endBy(patience time.Time) {
	select {
	case <-p.ended:
	case <-time.After(time.Until(patience)):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.ended: // another process may have this process ID by now
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

func (p *process) tail() []byte {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Appendf(nil, "reading its log: %v", err)
	}
	return lastLines(data, tailLines)
}

// lastLines returns the last n lines of some output.
func lastLines(data []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

// endWithGroup makes the end of a command's context end the command's children, too.
func endWithGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
