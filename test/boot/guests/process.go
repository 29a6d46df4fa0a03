//go:build boot

package guests

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// process is a running program.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// start starts a program that writes its output to the file log. The kernel kills it when this process ends.
func start(log, name string, args ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", name, err)
	}
	p := &process{cmd: exec.Command(name, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel kills a child when the thread that started it ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = file.Close() }()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// kill kills the program, and returns once it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// run runs the command in each line, until one fails.
func run(lines ...string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("running %s: %w: %s", line, err, out)
		}
	}
	return nil
}
