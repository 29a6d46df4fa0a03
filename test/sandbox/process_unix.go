//go:build unix && !linux

package sandbox

import "syscall"

// apart puts a program into a process group of its own, so that a Ctrl-C reaches the sandbox alone, which then stops
// everything in order.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
