package sandbox

import "syscall"

// apart puts a program into its own process group, so that Ctrl-C reaches only the sandbox, which then stops everything in order.
// The kernel kills the program when the sandbox is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
