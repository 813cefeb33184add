//go:build !unix

package child

import "syscall"

const supported = false

// OwnGroup returns no attributes: this system has no groups of processes.
func OwnGroup() *syscall.SysProcAttr { return nil }

// KillGroup does nothing: this system has no groups of processes.
func KillGroup(int) {}
