package sandbox

import "syscall"

// apart puts a program into a process group of its own, so that a Ctrl-C reaches the sandbox alone, which then stops
// everything in order; and has the kernel end it when the sandbox is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
