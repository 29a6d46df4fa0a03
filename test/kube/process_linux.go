package kube

import "syscall"

// ownGroup puts a process into its own process group, so that a Ctrl-C in the terminal reaches only
// the launcher, which then stops everything in order. The kernel ends the process when the launcher
// is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
