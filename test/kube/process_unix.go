//go:build unix && !linux

package kube

import "syscall"

// ownGroup puts a process into a group of its own, so that a Ctrl-C in the
// terminal reaches the launcher alone, which then stops everything in order.
// Only Linux can end it when the launcher is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
