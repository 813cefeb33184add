//go:build unix

package child

import "syscall"

// supported reports whether this system can start trainers.
const supported = true

// OwnGroup returns the attributes by which a process becomes the leader of a group, which a signal
// from the terminal does not reach.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills every process that is left of the group that the process with number leader has
// begun, at once and without a warning.
func KillGroup(leader int) {
	// An error says that nothing is left of the group.
	_ = syscall.Kill(-leader, syscall.SIGKILL)
}
